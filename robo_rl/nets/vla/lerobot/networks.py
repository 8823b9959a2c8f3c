"""The networks of a LeRobot config of a policy, and the settings of a flow policy with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from robo_rl.nets.vla.lerobot.config import Kind, LeRobotVlaConfig, read_backbones, sizes_of
from robo_rl.nets.vla.pi0 import GemmaExpert, PaliGemmaPrefix, Pi0Expert, Pi05Expert
from robo_rl.nets.vla.sizes import VlaSizes
from robo_rl.nets.vla.smolvla import SmolVlaExpert, SmolVlaPrefix


class VlaNetworks(nn.Module):
    """The networks of a policy: ``prefix`` encodes, ``expert`` denoises.

    Args:
        kind: SmolVLA, π0 or π0.5.
        sizes: See ``VlaSizes``.
        vlm_config: Config of the backbone.
        expert: Config of π0's and π0.5's expert.
    """

    def __init__(
        self, kind: Kind, sizes: VlaSizes, vlm_config: Any, expert: Any | None = None
    ) -> None:
        super().__init__()
        self.kind: Kind = kind
        self.sizes = sizes
        if kind == "smolvla":
            self.prefix: SmolVlaPrefix | PaliGemmaPrefix = SmolVlaPrefix(sizes, vlm_config)
            self.expert: SmolVlaExpert | GemmaExpert = SmolVlaExpert(sizes, vlm_config)
        else:
            self.prefix = PaliGemmaPrefix(sizes, vlm_config)
            self.expert = (Pi0Expert if kind == "pi0" else Pi05Expert)(sizes, expert)


def build_networks(
    folder: Path, config: LeRobotVlaConfig, *, scale_tokens: bool = True
) -> VlaNetworks:
    """Build the networks that a folder describes, with first weights of ``transformers``.

    Raises:
        ConfigError: See ``read_backbones``.
    """
    from transformers import GemmaConfig, PaliGemmaConfig, SmolVLMConfig

    sizes = sizes_of(config, scale_tokens=scale_tokens)
    vlm, gemma = read_backbones(folder, config)
    if gemma is None:
        return VlaNetworks(config.type, sizes, SmolVLMConfig.from_dict(vlm))
    own = GemmaConfig.from_dict(gemma)
    return VlaNetworks(config.type, sizes, PaliGemmaConfig.from_dict(vlm), own)


def policy_settings(
    folder: Path, config: LeRobotVlaConfig, *, scale_tokens: bool = True
) -> dict[str, Any]:
    """Return the settings of a flow policy with these networks.

    Args:
        folder: The folder of the config.
        config: The folder's config.
        scale_tokens: See ``VlaSizes``.

    Raises:
        ConfigError: See ``read_backbones``.
    """
    vlm, gemma = read_backbones(folder, config)
    sizes = sizes_of(config, scale_tokens=scale_tokens).model_dump()
    own = {"vlm": vlm} if gemma is None else {"gemma": gemma}
    encoder = "smolvla" if config.type == "smolvla" else "paligemma"
    return {
        "name": "flow",
        "prediction_type": "vel",
        "train_times": "grid",
        "loss_weight": "prediction",
        "horizon": config.chunk_size,
        "exec_horizon": config.chunk_size,
        "num_steps": config.denoising_steps,
        "encoder": {"name": encoder, "vlm": vlm, **sizes},
        "net": {"name": config.type, **own, **sizes},
    }
