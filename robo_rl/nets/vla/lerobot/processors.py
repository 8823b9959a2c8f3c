"""How LeRobot's processors beside a policy normalise states and actions, in and out.

A processor is a JSON file of steps, and a safetensors file of the statistics of a step. Facts are
those of LeRobot 0.6.1. Only affine maps are read: x ↦ (x − shift) / scale.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from robo_rl.core.atomic_files import write_file
from robo_rl.core.errors import ConfigError
from robo_rl.data.lerobot.info import ACTION, STATE
from robo_rl.nets.vla.lerobot.config import Kind, read_json
from robo_rl.nets.vla.lerobot.folder import read_weights

BEFORE, AFTER = "policy_preprocessor", "policy_postprocessor"
TYPES = {STATE: "STATE", ACTION: "ACTION"}
"""Vector of a policy → its type in LeRobot's configs."""

EPS = 1e-8
"""LeRobot adds it to a standard deviation."""

MODES: dict[str, tuple[str, tuple[str, str]]] = {
    "MEAN_STD": ("standard", ("mean", "std")),
    "MIN_MAX": ("min_max", ("min", "max")),
    "QUANTILES": ("quantile", ("q01", "q99")),
    "QUANTILE10": ("quantile", ("q10", "q90")),
}
"""LeRobot's mode → ours, and the two statistics that it uses."""


class Scale(NamedTuple):
    """The map of a vector.

    Args:
        mode: Mode of ``robo_rl.data.affine``.
        shift: (n,), subtracted.
        scale: (n,), the divisor.
    """

    mode: str
    shift: Tensor
    scale: Tensor


def read_scales(folder: Path) -> dict[str, Scale]:
    """Return the maps of ``STATE`` and ``ACTION`` of a folder's preprocessor.

    Raises:
        ConfigError: There is no such file or step, or its settings are not supported.
        CheckpointError: The statistics are missing or damaged.
    """
    path = folder / f"{BEFORE}.json"
    steps = read_json(path).get("steps")
    named = {str(step.get("registry_name")): step for step in _mappings(steps)}
    _demand_absolute(path, named)
    step = named.get("normalizer_processor")
    if step is None:
        found = ", ".join(named) or "none"
        raise ConfigError(
            "has no step that normalises", where=path, expected="normalizer_processor", found=found
        )
    name = str(step.get("state_file", ""))
    if Path(name).name != name or not name:
        raise ConfigError("is no name of a file", where=f"{path} state_file", found=repr(name))
    weights = read_weights(folder / name)
    modes = _mapping(_mapping(step.get("config")).get("norm_map"))
    return {key: _scale(path, key, modes.get(kind), weights) for key, kind in TYPES.items()}


def write_processors(
    folder: Path, kind: Kind, config: Mapping[str, Any], scales: Mapping[str, Scale], words: str
) -> None:
    """Write both processors of a policy.

    Args:
        folder: Folder of the policy.
        kind: SmolVLA or π0.
        config: Content of ``config.json``, with ``normalization_mapping``.
        scales: Maps of ``STATE`` and ``ACTION``.
        words: Name or folder of the tokenizer, as LeRobot loads it.
    """
    import safetensors.torch

    modes: dict[str, str] = config["normalization_mapping"]
    tensors = {
        f"{key}.{name}": value
        for key, scale in scales.items()
        for name, value in _statistics(modes[TYPES[key]], scale).items()
    }
    features = {**config["input_features"], **config["output_features"]}
    for stem, steps in (
        (BEFORE, _before(kind, config, features, words)),
        (AFTER, _after(config, modes)),
    ):
        for index, step in enumerate(steps):
            if "normalizer" in step["registry_name"]:
                step["state_file"] = f"{stem}_step_{index}_{step['registry_name']}.safetensors"
                write_file(folder / step["state_file"], safetensors.torch.save(tensors))
        whole = {"name": stem, "steps": steps}
        write_file(folder / f"{stem}.json", json.dumps(whole, indent=2).encode())


def _before(
    kind: Kind, config: Mapping[str, Any], features: Mapping[str, Any], words: str
) -> list[dict[str, Any]]:
    newline = "smolvla_new_line_processor" if kind == "smolvla" else "pi0_new_line_processor"
    tokenizer = {
        "max_length": config["tokenizer_max_length"],
        "task_key": "task",
        "padding_side": "right",
        "padding": config.get("pad_language_to", "max_length"),
        "truncation": True,
        "tokenizer_name": words,
    }
    modes = config["normalization_mapping"]
    return [
        _step("rename_observations_processor", {"rename_map": {}}),
        _step("to_batch_processor", {}),
        _step(newline, {}),
        _step("tokenizer_processor", tokenizer),
        _step("device_processor", {"device": "cpu", "float_dtype": None}),
        _step("normalizer_processor", {"eps": EPS, "features": features, "norm_map": modes}),
    ]


def _after(config: Mapping[str, Any], modes: Mapping[str, str]) -> list[dict[str, Any]]:
    settings = {"eps": EPS, "features": config["output_features"], "norm_map": modes}
    return [
        _step("unnormalizer_processor", settings),
        _step("device_processor", {"device": "cpu", "float_dtype": None}),
    ]


def _step(name: str, config: Any) -> dict[str, Any]:
    return {"registry_name": name, "config": config}


def _scale(path: Path, key: str, mode: Any, weights: Mapping[str, Tensor]) -> Scale:
    ours, names = MODES.get(str(mode), ("", ("", "")))
    if not ours:
        raise ConfigError(
            "is a mode that is not read",
            where=f"{path} norm_map {TYPES[key]}",
            expected=", ".join(MODES),
            found=mode,
        )
    missing = [f"{key}.{name}" for name in names if f"{key}.{name}" not in weights]
    if missing:
        raise ConfigError(
            "has no such statistic", where=path, expected=missing[0], found=", ".join(weights)
        )
    first, second = (weights[f"{key}.{name}"].float().flatten() for name in names)
    standard = ours == "standard"
    if first.shape == second.shape:
        scale = second if standard else (second - first) / 2
        if bool((first.isfinite() & scale.isfinite() & (scale >= 0)).all()):
            scale = torch.where(scale > 0, scale, 1.0)  # LeRobot maps a constant to −1, or to 0
            return Scale(ours, first if standard else first + scale, scale)
    raise ConfigError(
        "has statistics that are none",
        where=f"{path} {key}",
        expected=f"finite {names[0]} and {names[1]} of one length",
        found=f"{list(first.shape)} and {list(second.shape)}",
    )


def _statistics(mode: str, scale: Scale) -> dict[str, Tensor]:
    """Return the two statistics by which LeRobot computes the same map."""
    _, names = MODES[mode]
    shift, size = scale.shift.cpu().contiguous(), scale.scale.cpu().contiguous()
    values = (shift, size) if mode == "MEAN_STD" else (shift - size, shift + size)
    return dict(zip(names, values, strict=True))


def _demand_absolute(path: Path, steps: Mapping[str, Mapping[str, Any]]) -> None:
    step = steps.get("relative_actions_processor", {})
    if _mapping(step.get("config")).get("enabled"):
        raise ConfigError(
            "actions relative to the state are not read",
            where=f"{path} relative_actions_processor",
            expected="enabled: false",
        )


def _mappings(steps: Any) -> list[dict[str, Any]]:
    listed = cast("list[Any]", steps) if isinstance(steps, list) else []
    return [_mapping(step) for step in listed]


def _mapping(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
