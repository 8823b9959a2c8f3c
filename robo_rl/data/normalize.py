"""Affine maps between physical and network units, one per array, saved with the policy.

``robo_rl.data.affine`` describes their modes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from robo_rl.core.errors import CheckpointError, SpecError
from robo_rl.data.affine import Affine, check_modes, fit_affine
from robo_rl.data.feature_compression import compress
from robo_rl.data.relative_actions import relative_reference

if TYPE_CHECKING:
    from robo_rl.core.spec import ActSpec, ObsSpec
    from robo_rl.data.dataset import WindowDataset
    from robo_rl.data.statistics import Stats

MIN_STEP = 1e-3
"""Lower bound of a control step in network units, for elements that hardly move in the data."""


class Normalizer(nn.Module):
    """Affine maps by key (``obs.<name>``, ``act``) as buffers; plain arithmetic, fit for ONNX.

    Use ``from_stats``, ``fit``, ``identity`` or ``from_meta``. The buffers and ``stats_hash`` are
    part of the state dict, so weights are always saved with the statistics of their training.

    Args:
        affines: Key → map.
        data_digest: Digest of the data of the statistics.
        relative_to: Observation that ``act_to_network`` subtracts from actions; empty for none.

    Attributes:
        running_rows: Rows that statistics of observations count for which training moves (see
            ``RunningObsStats``); 0 for others.
    """

    def __init__(
        self, affines: Mapping[str, Affine], data_digest: str, relative_to: str = ""
    ) -> None:
        super().__init__()
        self.data_digest, self.relative_to = data_digest, relative_to
        self.running_rows = 0.0
        self.affines = nn.ModuleDict({_mangled(key): affine for key, affine in affines.items()})
        self._modes = {key: affine.mode for key, affine in affines.items()}
        self.register_buffer("hash", torch.tensor(list(self._hash()), dtype=torch.uint8))

    @classmethod
    def from_stats(cls, stats: Stats, modes: Mapping[str, str] | None = None) -> Normalizer:
        """Build a normaliser from the statistics of a dataset.

        Args:
            stats: ``WindowDataset.stats()``.
            modes: Key → mode; ``min_max`` for other keys.

        Raises:
            ConfigError: An unknown key or mode.
            DataError: A statistic is not finite.
        """
        modes = _default_modes(stats) | dict(modes or {})
        check_modes(modes, stats.keys)
        affines = {
            key: fit_affine(key, modes.get(key, "min_max"), found)
            for key, found in stats.keys.items()
        }
        return cls(affines, stats.digest, stats.relative_to)

    @classmethod
    def fit(
        cls, data: WindowDataset, modes: Mapping[str, str] | None = None, relative_to: str = ""
    ) -> Normalizer:
        """Build a normaliser from a dataset, see ``from_stats``."""
        return cls.from_stats(data.stats(relative_to), modes)

    @classmethod
    def identity(cls, obs_spec: ObsSpec, act_spec: ActSpec, relative_to: str = "") -> Normalizer:
        """Build a normaliser that changes nothing but what actions are relative to.

        A control step moves an action by 1.
        """
        vectors = {f"obs.{name}": obs_spec.items[name] for name in obs_spec.vector_names}
        specs = {**vectors, "act": act_spec}
        one = {
            key: Affine("standard", torch.zeros(spec.shape), torch.ones(spec.shape))
            for key, spec in specs.items()
        }
        one["act"].step = torch.ones(act_spec.shape)
        return cls(one, "", relative_to)

    @classmethod
    def from_meta(cls, meta: Mapping[str, Any]) -> Normalizer:
        """Rebuild a normaliser from ``to_meta``, equal to the bit.

        Raises:
            CheckpointError: Its numbers do not match its hash.
        """
        affines = {key: Affine.from_meta(entry) for key, entry in meta["keys"].items()}
        normalizer = cls(affines, meta["data_digest"], meta.get("relative_to", ""))
        normalizer.running_rows = meta.get("running_rows", 0.0)
        if normalizer.stats_hash != meta["stats_hash"]:
            raise CheckpointError(
                "the normaliser's numbers do not match its hash",
                expected=meta["stats_hash"],
                found=normalizer.stats_hash,
            )
        return normalizer

    def to_meta(self) -> dict[str, Any]:
        """Return the normaliser as JSON values."""
        keys = {key: self.affine(key).to_meta() for key in self._modes}
        relative = {"relative_to": self.relative_to} if self.relative_to else {}
        running = {"running_rows": self.running_rows} if self.running_rows else {}
        said = {"stats_hash": self.stats_hash, "data_digest": self.data_digest}
        return {**said, **relative, **running, "keys": keys}

    @property
    def stats_hash(self) -> str:
        """SHA-256 of the data's digest and of every mode, shift, scale and step, in hexadecimal."""
        return bytes(cast(Tensor, self.hash).tolist()).hex()

    @property
    def dtype(self) -> torch.dtype:
        """Type of its numbers and of its outputs."""
        return next((buffer.dtype for buffer in self.affines.buffers()), torch.float32)

    @property
    def device(self) -> torch.device:
        """Where its numbers are, and so what it is handed."""
        return cast(Tensor, self.hash).device

    @property
    def modes(self) -> dict[str, str]:
        """Key → mode."""
        return dict(self._modes)

    def set_affine(self, key: str, shift: Tensor, scale: Tensor) -> None:
        """Change an array's map in place, for all users of this normaliser, and update the hash.

        Raises:
            SpecError: It has no such key.
        """
        affine = self.affine(key)
        affine.shift.copy_(shift)
        affine.scale.copy_(scale)
        cast(Tensor, self.hash).copy_(torch.tensor(list(self._hash()), dtype=torch.uint8))

    def normalize(self, key: str, x: Tensor) -> Tensor:
        """Physical units x (…, *row shape) → network units.

        Raises:
            SpecError: It has no such key.
        """
        affine = self.affine(key)
        return (x - affine.shift) / affine.scale

    def unnormalize(self, key: str, x: Tensor) -> Tensor:
        """Network units x (…, *row shape) → physical units.

        Raises:
            SpecError: It has no such key.
        """
        affine = self.affine(key)
        return x * affine.scale + affine.shift

    def act_to_network(self, obs: Mapping[str, Tensor], act: Tensor) -> Tensor:
        """Actions act (B, H, A) in physical units → network units, for obs name → (B, To, …)."""
        return self.normalize("act", act - self._reference(obs, act))

    def act_to_env(self, obs: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """Invert ``act_to_network`` for x (B, H, A)."""
        act = self.unnormalize("act", x)
        return act + self._reference(obs, act)

    def act_limits(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Return limits (A,) of actions in network units, for every observation.

        A relative element is at most the whole range (``high`` − ``low``) away from its reference.
        """
        if self.relative_to:
            size = self.affine(f"obs.{self.relative_to}").shift.shape[-1]
            relative = torch.arange(len(low), device=low.device) < size
            reach = high - low
            low, high = torch.where(relative, -reach, low), torch.where(relative, reach, high)
        return self.normalize("act", low), self.normalize("act", high)

    def _reference(self, obs: Mapping[str, Tensor], act: Tensor) -> Tensor | float:
        """Return what is subtracted from act (B, H, A): the latest observation, or 0."""
        if not self.relative_to:
            return 0.0
        return relative_reference(obs[self.relative_to], act)

    def step_size(self, key: str) -> Tensor | None:
        """Return what one control step typically moves, in network units (*row shape).

        It is at least ``MIN_STEP``. None if the statistics do not contain it.

        Raises:
            SpecError: It has no such key.
        """
        affine = self.affine(key)
        if affine.step is None:
            return None
        return (affine.step.double() / affine.scale.double()).clamp(min=MIN_STEP)

    def features(
        self, obs: Mapping[str, Tensor], names: Collection[str], *, compressed: bool = True
    ) -> Tensor:
        """Concatenate observations name → (B, To, …) in network units to (B, O).

        With ``compressed``, the values are those of ``compress``. Without names the result is
        (B, 0).
        """
        if not names:
            rows = next(iter(obs.values()))
            return torch.zeros(rows.shape[0], 0, dtype=self.dtype, device=rows.device)
        parts = [self.normalize(f"obs.{name}", obs[name]).flatten(1) for name in names]
        joined = torch.cat(parts, dim=-1)
        return compress(joined) if compressed else joined

    def affine(self, key: str) -> Affine:
        """Return the map of an array.

        Raises:
            SpecError: It has no such key.
        """
        if key not in self._modes:
            raise SpecError(
                f"the normaliser knows no '{key}'",
                expected=sorted(self._modes),
                hint="arrays of integers, such as images, are not normalised here",
            )
        return cast(Affine, self.affines[_mangled(key)])

    def _hash(self) -> bytes:
        said = f"{self.data_digest}\0{self.relative_to}" if self.relative_to else self.data_digest
        content = hashlib.sha256(said.encode())
        for key in sorted(self._modes):
            affine = self.affine(key)
            content.update(f"\0{key}\0{affine.mode}\0{tuple(affine.shift.shape)}\0".encode())
            steps = () if affine.step is None else (affine.step,)
            for buffer in (affine.shift, affine.scale, *steps):
                content.update(buffer.float().cpu().contiguous().numpy().tobytes())
        return content.digest()


def _default_modes(stats: Stats) -> dict[str, str]:
    """Return the modes that differ from ``min_max``.

    The largest relative actions are far larger than the others, such as those of a first approach.
    """
    return {"act": "quantile"} if stats.relative_to else {}


def _mangled(key: str) -> str:
    # names of submodules may contain no dots; names of observations contain no slashes
    return key.replace(".", "/")
