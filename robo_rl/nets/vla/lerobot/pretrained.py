"""Weights and statistics of a LeRobot folder as the first of a policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from robo_rl.config.differences import differences
from robo_rl.core.errors import CheckpointError, ConfigError, SpecError
from robo_rl.core.spec import ObsSpec
from robo_rl.data.affine import Affine
from robo_rl.data.lerobot.info import ACTION, STATE
from robo_rl.data.normalize import Normalizer
from robo_rl.nets.lora import base_weights
from robo_rl.nets.vla.lerobot.config import CONFIG, read_config
from robo_rl.nets.vla.lerobot.folder import WEIGHTS, read_networks
from robo_rl.nets.vla.lerobot.networks import policy_settings
from robo_rl.nets.vla.lerobot.processors import BEFORE, Scale, read_scales


def check_folder(policy: Mapping[str, Any], folder: Path) -> None:
    """Check that a policy has the networks of a folder, before any weight is read.

    Args:
        policy: Settings of the policy, with those of ``encoder`` and ``net``, as JSON values.
        folder: A folder that LeRobot's ``save_pretrained`` wrote.

    Raises:
        ConfigError: The folder's config is missing or damaged, or describes other networks.
    """
    config = read_config(folder).config
    scale = bool(policy["net"].get("scale_tokens", True))
    theirs = policy_settings(folder, config, scale_tokens=scale)
    family = {key: theirs[key] for key in ("name", "prediction_type")}
    for part, given in (("", family), ("net", theirs["net"]), ("encoder", theirs["encoder"])):
        wanted = {key: _plain(value) for key, value in given.items()}
        own = policy[part] if part else policy
        ours = {key: _plain(own.get(key)) for key in wanted}
        if first := next(differences(ours, wanted, (part,) if part else ()), None):
            raise ConfigError(
                "the policy's networks are not those of the folder",
                where=f"policy.{first.key}",
                expected=f"{first.other}, of {folder / CONFIG}",
                found=first.one,
                hint=f"take policy from `robo-rl lerobot-policy {folder}`",
            )


def load_folder(net: Any, folder: Path) -> None:
    """Replace the weights of a network's prefix and expert by those of a folder.

    States and actions keep the normalisation of the policy's own data.

    Args:
        net: A ``VlaNet`` that passed ``check_folder``.
        folder: The folder.

    Raises:
        CheckpointError: The weights are missing or damaged, or have other shapes.
        DeviceError: The extra ``pretrained`` is not installed.
    """
    networks, _ = read_networks(folder, scale_tokens=net.expert.sizes.scale_tokens)
    pairs = (
        (base_weights(net.encoder.prefix), networks.prefix.state_dict()),
        (base_weights(net.expert), networks.expert.state_dict()),
    )
    for own, found in pairs:
        _demand_same(folder / WEIGHTS, own, found)
    for own, found in pairs:
        for name, weight in own.items():
            weight.copy_(found[name])


def check_absolute(relative_to: str) -> None:
    """Check that a policy's actions are absolute, as LeRobot's statistics are.

    Raises:
        ConfigError: They are relative to an observation.
    """
    if relative_to:
        raise ConfigError(
            "statistics of absolute actions do not fit relative ones",
            where="policy.relative_to",
            expected="no observation",
            found=relative_to,
        )


def check_state_order(sees: Sequence[str], policy_spec: ObsSpec) -> None:
    """Check that vectors are read in the order in which a policy's settings name them.

    Args:
        sees: ``policy.sees``; empty for the order of the env.
        policy_spec: What the policy reads, in the order of the env.

    Raises:
        SpecError: The order differs, so that LeRobot's statistics would meet other elements.
    """
    named = [name for name in sees if name in policy_spec.vector_names]
    if named and named != list(policy_spec.vector_names):
        raise SpecError(
            "the state is read in another order",
            where="policy.sees",
            expected=f"{', '.join(policy_spec.vector_names)}, the env's order",
            found=", ".join(named),
            hint="take statistics of the run's own data: stages.bc.pretrained_statistics=false",
        )


def folder_normalizer(normalizer: Normalizer, policy_spec: ObsSpec, folder: Path) -> Normalizer:
    """Return a normaliser with the maps of a folder for what a policy reads and does.

    Args:
        normalizer: That of the data, whose other maps and typical steps stay.
        policy_spec: What the policy reads; its vectors, one after the other, are LeRobot's state.
        folder: The folder, with the processors that LeRobot saved beside the policy.

    Raises:
        ConfigError: See ``read_scales``; or actions are relative to an observation.
        CheckpointError: See ``read_scales``.
        SpecError: States or actions have other widths.
    """
    check_absolute(normalizer.relative_to)
    scales = read_scales(folder)
    affines = {key: normalizer.affine(key) for key in normalizer.modes}
    parts = {STATE: [f"obs.{name}" for name in policy_spec.vector_names], ACTION: ["act"]}
    for vector, keys in parts.items():
        sizes = [affines[key].shift.numel() for key in keys]
        _demand_width(folder, vector, scales[vector], sum(sizes))
        shifts, widths = (values.split(sizes) for values in scales[vector][1:])
        for key, shift, scale in zip(keys, shifts, widths, strict=True):
            old = affines[key]
            shape = old.shift.shape
            mode = scales[vector].mode
            affines[key] = Affine(mode, shift.reshape(shape), scale.reshape(shape), old.step)
    return Normalizer(affines, normalizer.data_digest)


_OF_ANOTHER_WIDTH = {
    STATE: "name the items of LeRobot's state in policy.sees; they are read in the env's order",
    ACTION: "take the robot and the actions that LeRobot's policy was trained with",
}


def _demand_width(folder: Path, vector: str, scale: Scale, width: int) -> None:
    if scale.shift.numel() != width:
        raise SpecError(
            "statistics of another width",
            where=f"{folder / BEFORE}.json {vector}",
            expected=f"{width}, the policy's",
            found=scale.shift.numel(),
            hint=_OF_ANOTHER_WIDTH[vector],
        )


def _demand_same(file: Path, ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    one, other = ({k: list(w.shape) for k, w in weights.items()} for weights in (ours, theirs))
    if first := next(differences(one, other), None):
        where = f"{file} {first.key}"
        raise CheckpointError(
            "a weight is another", where=where, expected=first.one, found=first.other
        )


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
