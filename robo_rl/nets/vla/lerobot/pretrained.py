"""Weights of a LeRobot folder as the first weights of a policy's networks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from robo_rl.config.differences import differences
from robo_rl.core.errors import CheckpointError, ConfigError
from robo_rl.nets.lora import base_weights
from robo_rl.nets.vla.lerobot.config import CONFIG, read_config
from robo_rl.nets.vla.lerobot.folder import WEIGHTS, read_networks
from robo_rl.nets.vla.lerobot.networks import policy_settings


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
    for part in ("net", "encoder"):
        wanted = {key: _plain(value) for key, value in theirs[part].items()}
        ours = {key: _plain(policy[part].get(key)) for key in wanted}
        if first := next(differences(ours, wanted, (part,)), None):
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
    for ours, theirs in ((net.encoder.prefix, networks.prefix), (net.expert, networks.expert)):
        own, found = base_weights(ours), theirs.state_dict()
        _demand_same(folder / WEIGHTS, own, found)
        for name, weight in own.items():
            weight.copy_(found[name])


def _demand_same(file: Path, ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    one, other = ({k: list(w.shape) for k, w in weights.items()} for weights in (ours, theirs))
    if first := next(differences(one, other), None):
        where = f"{file} {first.key}"
        raise CheckpointError(
            "a weight is another", where=where, expected=first.one, found=first.other
        )


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
