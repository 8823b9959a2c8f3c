"""Policies of the size of published vision-language-action models, with random weights.

The sizes are those of SmolVLA's public config (Shukor et al. 2025, arXiv 2506.01844): SmolVLM2's
first 16 layers, an expert of 0.75 of its width, chunks of 50 actions, ten denoising steps, images
of 512 × 512 pixels, 48 tokens of an instruction. ``mini_vla`` is the small policy of this project.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from _ppo_updates import ACT
from torch import nn

from robo_rl.config.component import component
from robo_rl.core.spec import TOKEN, ObsSpec, TensorSpec
from robo_rl.nets.encoders.base import ObsFeatures
from robo_rl.nets.vla.backbones import SMOLVLM2

CAMERAS = ("table_rgb", "wrist_rgb")
_LORA = {"lora": {"rank": 16}}


class Model(NamedTuple):
    """Networks of a policy, and what they read."""

    encoder: dict[str, Any]
    net: dict[str, Any]
    side: int
    """Side of an image in pixels."""
    words: int
    """Tokens of an instruction."""
    horizon: int
    num_steps: int

    @property
    def obs_spec(self) -> ObsSpec:
        """Return the observation: seven numbers, two images, and an instruction."""
        eye = TensorSpec(shape=(3, self.side, self.side), dtype="uint8")
        text = TensorSpec(shape=(self.words,), dtype="int64", unit=TOKEN)
        images = dict.fromkeys(CAMERAS, eye)
        return ObsSpec(items={"state": TensorSpec(shape=(7,)), **images, "instruction": text})


class Training(NamedTuple):
    """What of a policy is trained, and how."""

    encoder: dict[str, Any]
    net: dict[str, Any]
    algo: dict[str, Any]


(_SMOLVLM2,) = SMOLVLM2.values()
_SMOLVLA = {"vlm": _SMOLVLM2, "image_size": [512, 512]}
MODELS = {
    "smolvla": Model(
        {"name": "smolvla", **_SMOLVLA}, {"name": "smolvla", **_SMOLVLA}, 512, 48, 50, 10
    ),
    "mini_vla": Model(
        {"name": "mini_vla"}, {"name": "mlp", "width": 512, "depth": 3}, 64, 64, 8, 4
    ),
}
TRAININGS = {
    "all": Training({}, {}, {}),
    "expert": Training({}, {}, {"freeze_encoder": True}),
    "lora": Training(_LORA, _LORA, {}),
    "lora_checkpoints": Training(
        {**_LORA, "gradient_checkpointing": True}, {**_LORA, "gradient_checkpointing": True}, {}
    ),
}


def trainings(model: str) -> list[str]:
    """Return the names of the trainings that a model supports."""
    return [name for name, each in TRAININGS.items() if model == "smolvla" or not each.net]


def networks(model: Model, training: Training) -> tuple[nn.Module, nn.Module]:
    """Return encoder and denoising network alone, on torch's default device."""
    encoder = component("encoders").make({**model.encoder, **training.encoder})
    seen = encoder.build(model.obs_spec, 1)
    net = component("nets").make({**model.net, **training.net})
    return seen, net.build(model.horizon, ACT.size, seen.num_features)


def features(model: Model, rows: int, device: str) -> ObsFeatures:
    """Return features of random observations."""
    eye = torch.zeros(rows, 1, 3, model.side, model.side, dtype=torch.uint8, device=device)
    words = torch.zeros(rows, 1, model.words, dtype=torch.int64, device=device)
    state = torch.zeros(rows, 7, device=device)
    return ObsFeatures(state, dict.fromkeys(CAMERAS, eye), {"instruction": words})
