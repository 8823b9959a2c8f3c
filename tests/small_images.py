"""A small policy that sees: two cameras of different sizes and layouts beside a vector."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from robo_rl.config.component import component
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.data.normalize import Normalizer

OBS = ObsSpec(
    items={
        "pos": TensorSpec(shape=(3,)),
        "front_rgb": TensorSpec(shape=(3, 36, 44), dtype="uint8"),
        "top_grey": TensorSpec(shape=(40, 40, 1), dtype="uint8"),
        "object_pos": TensorSpec(shape=(2,)),
    }
)
ACT = ActSpec(shape=(2,), rate_hz=20.0, low=(-1.0, -1.0), high=(1.0, 1.0))
SEES = ("pos", "front_rgb", "top_grey")
ENCODER = {"name": "conv", "channels": (4, 6, 8), "width": 10}


def make_seeing_policy(name: str = "flow", **fields: Any) -> Any:
    """A policy that reads all but the pose of the object, with double precision left to callers."""
    torch.manual_seed(0)
    settings = {
        "name": name,
        "horizon": 3,
        "exec_horizon": 2,
        "sees": SEES,
        "encoder": ENCODER,
        "net": {"name": "mlp", "width": 16, "depth": 1},
        **fields,
    }
    return component("policies").make(settings).build(OBS, ACT, Normalizer.identity(OBS, ACT))


def make_seen(rows: int, history: int = 1, seed: int = 0) -> dict[str, Tensor]:
    """Observations of all items, name → (rows, history, …)."""
    generator = torch.Generator().manual_seed(seed)
    obs: dict[str, Tensor] = {}
    for name, spec in OBS.items.items():
        shape = (rows, history, *spec.shape)
        if spec.dtype == "uint8":
            obs[name] = torch.randint(256, shape, generator=generator).to(torch.uint8)
        else:
            obs[name] = torch.randn(shape, generator=generator)
    return obs
