"""Small policies of every family over a made-up world, in float64 where exactness is tested."""

from __future__ import annotations

from typing import Any

import torch

from robo_rl.config.component import component
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.data.normalize import Normalizer

OBS = ObsSpec(items={"pos": TensorSpec(shape=(3,)), "goal": TensorSpec(shape=(2,))})
ACT = ActSpec(shape=(2,), rate_hz=20.0, low=(-1.0, -1.0), high=(1.0, 1.0))

SAMPLERS = {
    "gaussian": {"name": "gaussian"},
    "ddpm": {"name": "ddpm"},
    "ddim": {"name": "ddim", "train_steps": 20},
    "flow_sde": {"name": "flow_sde"},
    "flow_cps": {"name": "flow_cps"},
    "flow_noise": {"name": "flow_noise"},
}
TOKENS = {"categorical": {"name": "categorical"}}
FAMILY = {
    "gaussian": "gaussian",
    "ddpm": "diffusion",
    "ddim": "diffusion",
    "categorical": "tokens",
}


def make_policy(family: str, num_steps: int, **fields: object) -> Any:
    """A policy; Any, so that tests reach the layers of its network."""
    torch.manual_seed(0)
    settings: dict[str, Any] = {
        "name": FAMILY.get(family, "flow"),
        "sampler": (SAMPLERS | TOKENS)[family],
        "num_steps": 1 if family == "gaussian" else num_steps,
        "horizon": 3,
        "exec_horizon": 2,
        "net": {"name": "mlp", "width": 32, "depth": 1},
        **fields,
    }
    if settings["sampler"]["name"] == "ddim" and num_steps < 4:  # see MAX_START_SIGNAL
        settings["sampler"] = {**settings["sampler"], "train_steps": num_steps}
    normalizer = Normalizer.identity(OBS, ACT, str(fields.get("relative_to", "")))
    return component("policies").make(settings).build(OBS, ACT, normalizer).double()


def make_obs(rows: int, seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(rows, 1, *spec.shape, generator=generator, dtype=torch.float64)
        for name, spec in OBS.items.items()
    }
