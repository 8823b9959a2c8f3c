"""Training windows over demonstrations: observation histories and action chunks.

Shapes: N rows of all episodes together, B rows of a batch, To observations of history, H actions of
a chunk, A act_dim.

Row i gives the observations i-To+1 … i and the actions i … i+H-1 of its episode. The first
observation of an episode is repeated at its start, the last action at its end; a delta action, see
``ActSpec.reference``, is 0 beyond the end, so that the command stays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from robo_rl.core.errors import DataError
from robo_rl.core.memory import demand_memory, fits_memory
from robo_rl.core.spec import TensorSpec
from robo_rl.data.images.frame_cache import cached_frames
from robo_rl.data.images.image_log import ImageLog
from robo_rl.data.relative_actions import relative_rows
from robo_rl.data.statistics import Stats, key_stats, min_delta_scale, typical_step
from robo_rl.data.store.commits import EpisodeRecord
from robo_rl.data.store.episode import first_not_finite
from robo_rl.data.store.zarr_store import ZarrStore

INTERVENTION = "intervention"
"""Optional column of a store: whether a human commanded the row."""

EXECUTED = "executed"
"""Optional column of a store: the executed actions, where ``act`` holds labels without noise."""

_ROWS_AT_ONCE = 65536

_STATS_COPIES = 6
"""Memory that statistics take at most: the rows, and their copy and order in float64."""


class Batch(NamedTuple):
    """obs: name → (B, To, …); act: (B, H, A). Physical units."""

    obs: dict[str, Tensor]
    act: Tensor


class RowOutcomes(NamedTuple):
    """Rewards and ends of the rows.

    Args:
        rew: (N,).
        terminated: (N,) bool.
        last: (N,) int64, the last row of its episode.
        human: (N,) bool, whether a human commanded it.
    """

    rew: Tensor
    terminated: Tensor
    last: Tensor
    human: Tensor


class WindowDataset:
    """The committed episodes of a store as tensors, cut into windows by index arithmetic.

    Args:
        store: Store of the demonstrations.
        obs_horizon: To.
        horizon: H.
        only_success: Leave out episodes that failed.
        among: Indices of the store's episodes to use; None for all.
        images: Names of the images to hold; None for all. Vectors are always held.
        frames: Folder for decoded images that do not fit the memory; None refuses such a dataset.
        device: Device of the tensors and batches.

    Raises:
        DataError: There is no episode, a chunk is damaged, a value is not finite, or the column
            ``executed`` does not fit the actions.
        DeviceError: The rows do not fit the memory, or the images do not fit the disk.
    """

    def __init__(
        self,
        store: ZarrStore,
        obs_horizon: int,
        horizon: int,
        *,
        only_success: bool = False,
        among: Collection[int] | None = None,
        images: Collection[str] | None = None,
        frames: Path | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.obs_horizon, self.horizon = obs_horizon, horizon
        episodes = [
            record
            for number, record in enumerate(store.episodes)
            if (among is None or number in among) and (record.success or not only_success)
        ]
        if not episodes:
            raise DataError(
                "holds no episode to learn from",
                where=store.path,
                expected="successful episodes" if only_success else "episodes",
                found=f"{len(store.episodes)} episodes",
                hint="collect more, or with less noise",
            )
        spec, left_out = store.obs_spec, set[str]()
        if images is not None:
            left_out = set(spec.image_names) - set(images)
        self._names = tuple(name for name in spec.items if name not in left_out)
        self._act_spec, is_delta = store.act_spec, store.act_spec.is_delta
        self._is_delta = torch.tensor(is_delta, device=device) if any(is_delta) else None
        self._axes = {key: spec.names for key, spec in store.schema.arrays.items()}
        self._frames = self._cached(store, episodes, frames)
        in_files = spec.image_names if self._frames else ()
        keys = [*(f"obs.{name}" for name in self._names if name not in in_files), "act"]
        self._rows = _read_rows(store, episodes, keys, device)
        self._executed = self._rows["act"]
        if _has_column(store, EXECUTED, store.act_spec, "does not hold an action of each row"):
            self._executed = _read_rows(store, episodes, [EXECUTED], device)[EXECUTED]
        self._store, self._episodes = store, episodes
        self._first, self._last = _episode_bounds(episodes, device)
        chosen = "" if among is None else f" {sorted(among)}"
        self._chosen = f"{only_success}{chosen}"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the dataset and of the choice of its episodes."""
        return hashlib.sha256(f"{self._store.digest()} {self._chosen}".encode()).hexdigest()

    def __len__(self) -> int:
        return len(self._first)

    def sample(self, batch: int, generator: torch.Generator) -> Batch:
        """Return windows at ``batch`` rows drawn with replacement."""
        rows = torch.randint(len(self), (batch,), generator=generator, device=generator.device)
        return self.windows(rows)

    def windows(self, rows: Tensor) -> Batch:
        """Return the windows of rows (B,) int64; their actions are what a policy clones."""
        return self._cut(rows, self._rows["act"])

    def executed_windows(self, rows: Tensor) -> Batch:
        """Return the windows of rows (B,) int64; their actions are those that led to what followed.

        Without a column ``executed`` they are those of ``windows``.
        """
        return self._cut(rows, self._executed)

    def _cut(self, rows: Tensor, act: Tensor) -> Batch:
        """Return the windows of rows (B,) with actions from act (N, A)."""
        rows = rows.to(self._first.device).unsqueeze(1)
        past = rows + torch.arange(1 - self.obs_horizon, 1, device=rows.device)
        return Batch(self._obs(torch.maximum(past, self._first[rows])), self._chunks(rows, act))

    def _chunks(self, rows: Tensor, act: Tensor) -> Tensor:
        """Return the chunks (B, H, A) of rows (B, 1) from act (N, A)."""
        future = rows + torch.arange(self.horizon, device=rows.device)
        beyond, future = future > self._last[rows], torch.minimum(future, self._last[rows])
        chunk = act[future]
        if self._is_delta is not None:
            chunk = chunk.masked_fill(beyond[..., None] & self._is_delta, 0.0)
        return chunk

    def _obs(self, rows: Tensor) -> dict[str, Tensor]:
        """Return the observations (B, To, …) of rows (B, To)."""
        found = {} if self._frames is None else self._frames.read(rows.flatten())
        images = {name: x.to(rows.device).unflatten(0, rows.shape) for name, x in found.items()}
        return {
            name: images[name] if name in images else self._rows[f"obs.{name}"][rows]
            for name in self._names
        }

    def _cached(
        self, store: ZarrStore, episodes: list[EpisodeRecord], folder: Path | None
    ) -> ImageLog | None:
        """Return the images in files if the memory is too small for them and there is a folder."""
        held, rows = store.obs_spec.select(self._names, "obs"), sum(r.length for r in episodes)
        needed, hint = rows * held.num_bytes, "use fewer episodes, or smaller images"
        if held.image_names and folder is not None and not fits_memory(needed):
            return cached_frames(folder, store, episodes, held.image_names)
        demand_memory(needed, f"{rows:,} rows of {store.path}", hint)
        return None

    def batches(self, batch: int, generator: torch.Generator | None = None) -> Iterator[Batch]:
        """Yield each window once, in order or shuffled; the last batch may be short."""
        order = torch.arange(len(self))
        if generator is not None:
            order = torch.randperm(len(self), generator=generator, device=generator.device)
        for rows in order.split(batch):
            yield self.windows(rows)

    def outcomes(self) -> RowOutcomes:
        """Read rewards, ends and human interventions from the store.

        Without a column ``intervention`` no row is a human's.

        Raises:
            DataError: A value is not finite, an episode terminates before its last row, or the
                intervention column is not one flag per row.
        """
        problem = "does not say of each row whether a human commanded it"
        told = _has_column(self._store, INTERVENTION, TensorSpec(shape=(), dtype="bool"), problem)
        keys = ["rew", "terminated", *([INTERVENTION] if told else [])]
        rows = _read_rows(self._store, self._episodes, keys, self._last.device)
        self._demand_ends_last(rows["terminated"])
        human = rows.get(INTERVENTION, torch.zeros_like(rows["terminated"]))
        return RowOutcomes(rows["rew"], rows["terminated"], self._last, human)

    def _demand_ends_last(self, terminated: Tensor) -> None:
        early = terminated.nonzero().flatten()
        early = early[self._last[early] != early]
        if len(early):
            raise DataError(
                "an episode terminates before its last row",
                where=self._store.path,
                found=f"{len(early)} such rows",
                hint="`robo-rl data verify` names them, `robo-rl data repair` sets them aside",
            )

    def stats(self, relative_to: str = "") -> Stats:
        """Return statistics over all rows of each float array on the CPU; integers have none.

        The range of absolute actions spans labels and executed actions.

        Args:
            relative_to: Observation from which the actions of every window are displacements; empty
                for absolute actions.

        Raises:
            DeviceError: The displacements do not fit the memory.
        """
        floating = {k: rows.cpu() for k, rows in self._rows.items() if rows.is_floating_point()}
        changes = None if self._is_delta is None else self._is_delta.cpu()
        step = typical_step(floating["act"], self._last.cpu(), changes)
        if relative_to:
            floating["act"] = self._displacements(relative_to)
        found = {key: key_stats(rows, self._axes[key]) for key, rows in floating.items()}
        if self._executed is not self._rows["act"] and not relative_to:
            found["act"] = found["act"].widened(self._executed.cpu())
        found["act"] = found["act"]._replace(step=step, min_scale=min_delta_scale(self._act_spec))
        return Stats(found, self.digest, relative_to)

    def _displacements(self, relative_to: str) -> Tensor:
        """Return all windows' actions relative to an observation, (N·H, A)."""
        act, latest = self._rows["act"], self._rows[f"obs.{relative_to}"]
        number = len(self) * self.horizon
        needed = _STATS_COPIES * number * act.shape[-1] * act.element_size()
        what = f"the statistics of {number:,} actions relative to '{relative_to}'"
        demand_memory(needed, what, "use fewer episodes, or a smaller policy.horizon")
        found = act.new_empty(number, act.shape[-1], device="cpu")
        for rows in torch.arange(len(self), device=act.device).split(_ROWS_AT_ONCE):
            part = relative_rows(latest[rows].unsqueeze(1), self._chunks(rows.unsqueeze(1), act))
            start = int(rows[0]) * self.horizon
            found[start : start + len(part)] = part
        return found


def _has_column(store: ZarrStore, name: str, expected: TensorSpec, problem: str) -> bool:
    """Return whether the store has an optional column; a misfit is a ``DataError``."""
    found = store.schema.columns.get(name)
    if found is not None and (found.shape, found.dtype) != (expected.shape, expected.dtype):
        raise DataError(
            f"column '{name}' {problem}",
            where=store.path,
            expected=f"{expected.shape} {expected.dtype}",
            found=f"{found.shape} {found.dtype}",
            hint="write it in that form, or by another name",
        )
    return found is not None


def _read_rows(
    store: ZarrStore,
    episodes: list[EpisodeRecord],
    keys: list[str],
    device: torch.device | str,
) -> dict[str, Tensor]:
    rows = store.read(keys, episodes)
    for key, column in rows.items():
        if (row := first_not_finite(column)) is not None:
            stops = np.cumsum([record.length for record in episodes])
            record = episodes[int(np.searchsorted(stops, row, side="right"))]
            raise DataError(
                f"'{key}' is not finite in the episode at rows {record.start}–{record.stop - 1}",
                where=store.path,
                expected="finite numbers",
                found=column[row].tolist(),
                hint="run `robo-rl data verify`, or collect that episode anew",
            )
    return {key: torch.from_numpy(column).to(device) for key, column in rows.items()}


def _episode_bounds(
    episodes: list[EpisodeRecord], device: torch.device | str
) -> tuple[Tensor, Tensor]:
    """Return the first and last row, each (N,), of the episode of each row."""
    lengths = torch.tensor([record.length for record in episodes])
    stops = lengths.cumsum(0)
    first = (stops - lengths).repeat_interleave(lengths)
    last = (stops - 1).repeat_interleave(lengths)
    return first.to(device), last.to(device)
