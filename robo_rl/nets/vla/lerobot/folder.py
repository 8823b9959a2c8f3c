"""LeRobot's folders of SmolVLA, π0 and π0.5: config and weights, in and out.

Nothing is fetched, no code of the folder runs, and no pickle is read. Every missing, unexpected or
misshapen weight is an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from robo_rl.core.atomic_files import make_directory, write_file
from robo_rl.core.errors import CheckpointError
from robo_rl.core.suggestions import nearest
from robo_rl.nets.vla.lerobot.config import CONFIG, Described, Kind, read_config
from robo_rl.nets.vla.lerobot.networks import VlaNetworks, build_networks

WEIGHTS = "model.safetensors"
_SHOWN = 3

_VISION = "paligemma_with_expert.paligemma.model.vision_tower."
RENAMES: dict[str, tuple[tuple[str, str], ...]] = {
    "smolvla": (
        ("prefix.vlm.", "vlm_with_expert.vlm."),
        ("prefix.state_proj.", "state_proj."),
        ("expert.lm_expert.", "vlm_with_expert.lm_expert."),
        ("expert.", ""),
    ),
    "pi0": (
        ("prefix.paligemma.model.vision_tower.", f"{_VISION}vision_model."),
        ("prefix.paligemma.", "paligemma_with_expert.paligemma."),
        ("expert.gemma_expert.", "paligemma_with_expert.gemma_expert."),
        ("expert.", ""),
    ),
}
"""Beginnings of names in ``VlaNetworks`` → those in LeRobot, after ``model.``."""

TIED = {
    "prefix.paligemma.model.language_model.embed_tokens.weight": "prefix.paligemma.lm_head.weight"
}
"""Weight → the one that it is; a file holds one of the two, or both."""


def read_networks(folder: Path, *, scale_tokens: bool = True) -> tuple[VlaNetworks, Described]:
    """Read a folder that LeRobot's ``save_pretrained`` wrote.

    Args:
        folder: The folder.
        scale_tokens: See ``VlaSizes``.

    Returns:
        The networks in evaluation mode, and the folder's config.

    Raises:
        ConfigError: The config is missing, damaged, or of a policy that is not supported.
        CheckpointError: The weights are missing or damaged, or do not fit the config.
        DeviceError: The extra ``pretrained`` is not installed.
    """
    described = read_config(folder)
    with torch.device("meta"):
        networks = build_networks(folder, described.config, scale_tokens=scale_tokens)
    path = folder / WEIGHTS
    found = _renamed(read_weights(path), described.config.type)
    for tied, owner in TIED.items():
        if tied in found or owner in found:
            found.setdefault(owner, found.get(tied, torch.empty(0)))
            found[tied] = found[owner]
    _demand_fit(path, networks, found)
    networks.load_state_dict(found, assign=True)
    _restore_tables(networks)
    return networks.eval(), described


def write_networks(
    folder: Path, kind: Kind, weights: Mapping[str, Tensor], raw: Mapping[str, Any]
) -> None:
    """Write a folder that LeRobot's ``from_pretrained`` reads.

    Args:
        folder: The folder; it is made if it does not exist.
        kind: SmolVLA, π0 or π0.5.
        weights: State dict of ``VlaNetworks``.
        raw: Content of ``config.json``.

    Raises:
        CheckpointError: The folder cannot be written.
    """
    import safetensors.torch

    named = {
        lerobot_name(name, kind): tensor.detach().contiguous().cpu()
        for name, tensor in weights.items()
        if name not in TIED
    }
    try:
        make_directory(folder)
        write_file(folder / WEIGHTS, safetensors.torch.save(named, {"format": "pt"}))
        write_file(folder / CONFIG, json.dumps(dict(raw), indent=4).encode())
    except OSError as error:
        raise CheckpointError(
            f"cannot be written: {error.strerror or error}", where=folder
        ) from error


def lerobot_name(name: str, kind: Kind) -> str:
    """Return LeRobot's name of a weight of ``VlaNetworks``."""
    for own, theirs in _renames(kind):
        if name.startswith(own):
            return f"model.{theirs}{name.removeprefix(own)}"
    raise ValueError(f"a weight of no part: {name}")


def _renames(kind: Kind) -> tuple[tuple[str, str], ...]:
    return RENAMES["smolvla" if kind == "smolvla" else "pi0"]


def _renamed(weights: Mapping[str, Tensor], kind: Kind) -> dict[str, Tensor]:
    """Return weights by our names; a name of neither side stays, to be reported."""
    state = ("state_proj.", "prefix." if kind == "smolvla" else "expert.")
    found = dict[str, Tensor]()
    for name, tensor in weights.items():
        short = name.removeprefix("model.")
        places = [(own, theirs) for own, theirs in _renames(kind) if theirs]
        own = next((o + short.removeprefix(t) for o, t in places if short.startswith(t)), None)
        if own is None:
            own = (state[1] if short.startswith(state[0]) else "expert.") + short
        found[own if name.startswith("model.") else name] = tensor
    return found


def read_weights(path: Path) -> dict[str, Tensor]:
    """Return name → weight of a safetensors file.

    Raises:
        CheckpointError: The file is missing or damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            "cannot be read",
            where=path,
            expected="weights that LeRobot's save_pretrained wrote",
            found=f"{type(error).__name__}: {error}",
        ) from error


def _demand_fit(path: Path, networks: VlaNetworks, found: Mapping[str, Tensor]) -> None:
    problems = list(_problems(networks, found))
    if problems:
        more = f"; {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise CheckpointError(
            f"does not fit {CONFIG}: {'; '.join(problems[:_SHOWN])}{more}", where=path
        )


def _problems(networks: VlaNetworks, found: Mapping[str, Tensor]) -> Iterator[str]:
    expected = networks.state_dict()
    unexpected = [name for name in found if name not in expected]
    for name, tensor in expected.items():
        theirs = lerobot_name(name, networks.kind)
        if name not in found:
            near = nearest(name, unexpected)
            yield f"'{theirs}' is missing" + (f", there is '{near}'" if near else "")
        elif found[name].shape != tensor.shape:
            yield f"'{theirs}' is {tuple(found[name].shape)}, expected {tuple(tensor.shape)}"
        elif not found[name].is_floating_point():
            yield f"'{theirs}' is {found[name].dtype}, expected floating point"
        elif not bool(found[name].isfinite().all()):
            yield f"'{theirs}' has values that are not finite"
    yield from (f"'{name}' is unexpected" for name in unexpected)


def _restore_tables(networks: VlaNetworks) -> None:
    """Compute the tables that no file holds, which are on no device after the build."""
    for module in networks.modules():
        for name, table in list(module.named_buffers(recurse=False)):
            if not table.is_meta:
                continue
            if name == "position_ids":
                setattr(module, name, torch.arange(table.numel()).reshape(table.shape))
            else:
                delattr(module, name)
