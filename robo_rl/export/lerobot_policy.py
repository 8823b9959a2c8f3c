"""Writes a fine-tuned vision-language-action policy as a folder that LeRobot loads.

The folder holds config, weights and both processors, with the policy's own statistics. Adapters of
low rank are merged. LeRobot draws the padding of an action anew for every chunk; a policy here
draws it once.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from robo_rl.core.atomic_files import staged_directory, write_file
from robo_rl.core.errors import CheckpointError, ConfigError
from robo_rl.core.images import channels_first
from robo_rl.data.lerobot.info import ACTION, IMAGES, STATE
from robo_rl.nets.lora import merge_adapters
from robo_rl.nets.vla.lerobot.config import EXPERT, VLM, Described, read_config
from robo_rl.nets.vla.lerobot.folder import write_networks
from robo_rl.nets.vla.lerobot.pretrained import check_folder
from robo_rl.nets.vla.lerobot.processors import (
    MODES,
    TYPES,
    Scale,
    write_processors,
)
from robo_rl.policy.base import DenoisingPolicy

PALIGEMMA_WORDS = "google/paligemma-3b-pt-224"
"""Tokenizer of π0 in LeRobot."""


def write_lerobot_policy(policy: DenoisingPolicy, like: Path, out: Path) -> None:
    """Write a policy as LeRobot's ``save_pretrained`` does.

    Args:
        policy: A flow policy with the networks of ``like``.
        like: LeRobot folder that names the backbone and all settings that a policy here lacks.
        out: Folder to write.

    Raises:
        ConfigError: The policy has other networks, predicts no velocity, keeps its first steps as
            they were cloned, reads longer texts, or is π0.5, whose state LeRobot writes into the
            prompt.
        CheckpointError: The folder cannot be written.
    """
    described = read_config(like)
    kind = described.config.type
    check_folder({"name": policy.family, **policy.cfg.model_dump(mode="json")}, like)
    _demand_theirs(policy, described)
    raw = _config(policy, described)
    words = described.config.vlm_model_name or PALIGEMMA_WORDS
    try:
        with staged_directory(out) as stage:
            write_networks(stage, kind, _weights(policy), raw)
            for backbone in (like / VLM, like / EXPERT):
                if backbone.is_file():
                    write_file(stage / backbone.name, backbone.read_bytes())
            write_processors(stage, kind, raw, _scales(policy), words)
    except OSError as error:
        raise CheckpointError(f"cannot be written: {error.strerror or error}", where=out) from error


def _demand_theirs(policy: DenoisingPolicy, described: Described) -> None:
    kind, tokens = described.config.type, described.config.tokenizer_max_length
    (text,) = (policy.obs_spec.items[name] for name in policy.obs_spec.word_names)
    kept, length = policy.num_steps - policy.num_trained, text.shape[0]
    prediction = getattr(policy.cfg, "prediction_type", "none")
    for fits, where, expected, found in (
        (kind != "pi05", "policy.net.name", "smolvla or pi0, whose prompt has no state", kind),
        (not kept, "policy.finetune_steps", 0, f"{kept} steps kept as they were cloned"),
        (length <= tokens, "env.text_encoder", f"at most {tokens} tokens", length),
        (prediction == "vel", "policy.prediction_type", "vel", prediction),
        (not policy.cfg.relative_to, "policy.relative_to", "none", policy.cfg.relative_to),
        (not getattr(policy.cfg, "clip", 0.0), "policy.clip", 0, getattr(policy.cfg, "clip", 0.0)),
        (policy.obs_horizon == 1, "policy.obs_horizon", 1, policy.obs_horizon),
    ):
        if not fits:
            raise ConfigError(
                "is not written for LeRobot", where=where, expected=expected, found=found
            )


def _weights(policy: DenoisingPolicy) -> dict[str, Tensor]:
    net: Any = copy.deepcopy(policy.net)
    merge_adapters(net)
    parts: dict[str, nn.Module] = {"prefix.": net.encoder.prefix, "expert.": net.expert}
    return {begin + k: w for begin, part in parts.items() for k, w in part.state_dict().items()}


def _config(policy: DenoisingPolicy, described: Described) -> dict[str, Any]:
    spec, encoder = policy.obs_spec, policy.net.encoder
    kind, raw = described.config.type, described.raw
    width = sum(spec.items[name].size for name in spec.vector_names)
    images = {
        f"{IMAGES}{name}": {
            "type": "VISUAL",
            "shape": _image_shape(spec.items[name].shape),
        }
        for name in getattr(encoder, "cameras", spec.image_names)
    }
    modes = described.config.normalization_mapping
    affine = {key: modes[key] if modes.get(key) in MODES else "MEAN_STD" for key in TYPES.values()}
    steps = "num_steps" if kind == "smolvla" else "num_inference_steps"
    return {
        **raw,
        "input_features": {STATE: {"type": "STATE", "shape": [width]}, **images},
        "output_features": {ACTION: {"type": "ACTION", "shape": [policy.act_spec.size]}},
        "chunk_size": policy.horizon,
        "n_action_steps": policy.exec_horizon,
        "normalization_mapping": {**modes, **affine},
        steps: policy.num_steps,
        **({"use_relative_actions": False} if "use_relative_actions" in raw else {}),
    }


def _image_shape(shape: tuple[int, ...]) -> list[int]:
    return list(shape if channels_first(shape) else (shape[2], *shape[:2]))


def _scales(policy: DenoisingPolicy) -> dict[str, Scale]:
    normalizer = policy.normalizer
    state = [normalizer.affine(f"obs.{name}") for name in policy.obs_spec.vector_names]
    act = normalizer.affine("act")
    return {
        STATE: Scale(
            "standard",
            torch.cat([each.shift.flatten() for each in state]),
            torch.cat([each.scale.flatten() for each in state]),
        ),
        ACTION: Scale("standard", act.shift.flatten(), act.scale.flatten()),
    }
