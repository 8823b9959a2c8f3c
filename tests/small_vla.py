"""LeRobot's tiny SmolVLA, π0 and π0.5, with what they were asked and what they answered."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor

from robo_rl.nets.vla.lerobot_config import Described, VlaNetworks
from robo_rl.nets.vla.lerobot_folder import read_networks
from robo_rl.nets.vla.prefix import Prefix, pad_last

KINDS = ("smolvla", "pi0", "pi05")
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
