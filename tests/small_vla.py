"""LeRobot's tiny SmolVLA, π0 and π0.5, with what they were asked and what they answered."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor

from robo_rl.config.component import component
from robo_rl.core.spec import TOKEN, ActSpec, ObsSpec, TensorSpec
from robo_rl.data.normalize import Normalizer
from robo_rl.nets.vla.lerobot.config import Described
from robo_rl.nets.vla.lerobot.folder import read_networks
from robo_rl.nets.vla.lerobot.networks import VlaNetworks
from robo_rl.nets.vla.prefix import Prefix, pad_last
from robo_rl.policy.base import DenoisingPolicy

KINDS = ("smolvla", "pi0", "pi05")
assert_near = partial(torch.testing.assert_close, rtol=1e-5, atol=5e-4)
"""Compares with LeRobot's numbers, which other vector instructions round otherwise."""
FOLDERS = Path(__file__).parent / "nets" / "vla"
CAMERAS = ("obs.images.front", "obs.images.wrist")


class Vla(NamedTuple):
    """Networks of LeRobot's weights, the config, and the case."""

    networks: VlaNetworks
    described: Described
    case: dict[str, Tensor]

    def prefix(self, rows: slice = slice(None)) -> Prefix:
        """The embedding of the case's observations."""
        case = {name: tensor[rows] for name, tensor in self.case.items()}
        return self.networks.prefix(
            [case[name] for name in CAMERAS],
            case["obs.language.tokens"],
            case["obs.language.attention_mask"].bool(),
            case["obs.state"],
        )

    def velocity(self, x: Tensor, t: Tensor, prefix: Prefix) -> Tensor:
        """LeRobot's velocity, noise − action, where time 1 is noise."""
        return self.networks.expert(x, t, prefix)

    @property
    def noisy(self) -> tuple[Tensor, Tensor]:
        """The chunk (B, H, A) that the training loss asks about, and its target velocity."""
        act, noise = pad_last(self.case["action"], 8), self.case["noise"]
        t = self.case["time"][:, None, None]
        return t * noise + (1.0 - t) * act, noise - act


def tiny_vla(kind: str) -> Vla:
    """Read a folder; the embeddings of the cut vocabularies are not scaled."""
    networks, described = read_networks(FOLDERS / kind, scale_tokens=False)
    return Vla(networks, described, load_file(FOLDERS / kind / "case.safetensors"))


def euler(vla: Vla, prefix: Prefix) -> Tensor:
    """LeRobot's sampled chunk."""
    steps, x = vla.described.config.denoising_steps, vla.case["noise"].clone()
    for k in range(steps):
        x = x - vla.velocity(x, torch.full((len(x),), 1.0 - k / steps), prefix) / steps
    return x


WORDS, SIDE = 6, 32
OBS = ObsSpec(
    items={
        "state": TensorSpec(shape=(3,)),
        "front": TensorSpec(shape=(3, SIDE, SIDE), dtype="uint8"),
        "instruction": TensorSpec(shape=(WORDS,), dtype="int64", unit=TOKEN),
    }
)
ACT = ActSpec(shape=(2,), rate_hz=10.0, low=(-1.0,) * 2, high=(1.0,) * 2)
_TEXT = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 64,
}
_VISION = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": SIDE,
    "patch_size": 16,
}
_SIZES = {"max_state_dim": 4, "max_action_dim": 3, "image_size": (SIDE, SIDE), "num_vlm_layers": 2}


def vla_settings(kind: str, **fields: Any) -> dict[str, Any]:
    """Settings of a flow policy with a VLA of some ten thousand parameters."""
    if kind == "smolvla":
        text = {"model_type": "llama", **_TEXT}
        vision = {"model_type": "smolvlm_vision", **_VISION}
        vlm: dict[str, Any] = {"text_config": text, "vision_config": vision, "scale_factor": 2}
        encoder, own = {"name": "smolvla", "vlm": vlm}, {"vlm": vlm}
    else:
        text = {"model_type": "gemma", **_TEXT}
        vision = {"model_type": "siglip_vision_model", **_VISION, "projection_dim": 32}
        vlm = {"text_config": text, "vision_config": vision, "projection_dim": 32}
        encoder, own = {"name": "paligemma", "vlm": vlm}, {"gemma": {**_TEXT, "hidden_size": 24}}
    return {
        "name": "flow",
        "prediction_type": "vel",
        "num_steps": 3,
        "horizon": 4,
        "exec_horizon": 2,
        "encoder": {**encoder, **_SIZES},
        "net": {"name": kind, **own, **_SIZES},
        **fields,
    }


def small_vla_policy(kind: str, **fields: Any) -> DenoisingPolicy:
    """A policy with first weights."""
    torch.manual_seed(0)
    made = component("policies").make(vla_settings(kind, **fields))
    return made.build(OBS, ACT, Normalizer.identity(OBS, ACT))


def observations(rows: int, seed: int = 0) -> dict[str, Tensor]:
    """Random observations (B, 1, …) with instructions of unequal length."""
    draws = torch.Generator().manual_seed(seed)
    words = torch.randint(1, 64, (rows, 1, WORDS), generator=draws)
    length = torch.randint(1, WORDS + 1, (rows, 1, 1), generator=draws)
    return {
        "state": torch.randn(rows, 1, 3, generator=draws),
        "front": torch.randint(
            0, 256, (rows, 1, 3, SIDE, SIDE), dtype=torch.uint8, generator=draws
        ),
        "instruction": torch.where(torch.arange(WORDS) < length, words, -1),
    }
