"""Action experts as denoising networks: LeRobot's time and padding on one side, ours on the other.

LeRobot's time is 1 at noise, its velocity noise − action. Ours is 0 at noise, and the velocity
action − noise.

Shapes: B rows, H horizon, A act_dim, P padded action.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor

from robo_rl.core.errors import ConfigError
from robo_rl.core.seeding import make_generator
from robo_rl.nets.base import ChunkNet
from robo_rl.nets.lora import add_adapters
from robo_rl.nets.vla.pi0 import GemmaExpert, Pi0Expert, Pi05Expert
from robo_rl.nets.vla.prefix import Prefix
from robo_rl.nets.vla.sizes import VlaConfig
from robo_rl.nets.vla.smolvla import SmolVlaExpert


class VlaNet(ChunkNet):
    """The velocity of a chunk, given the prefix of the encoder beside it.

    The expert reads P elements of an action, of which the policy has A. In training the others are
    noise on its way to 0. They follow that way from one noise that is drawn once, so that a chain
    has A elements and stays a function of its observation and its own noise.

    Args:
        cfg: See the subclass.
        horizon: H.
        act_dim: A.
        obs_features: Width of the prefix's summary.

    Raises:
        ConfigError: A is above P.
    """

    padding: Tensor

    def __init__(self, cfg: Any, horizon: int, act_dim: int, obs_features: int) -> None:
        super().__init__()
        if act_dim > cfg.max_action_dim:
            raise ConfigError(
                "the robot's action does not fit the network",
                where="policy.net.max_action_dim",
                expected=f"at least {act_dim}",
                found=cfg.max_action_dim,
            )
        self.embed_dim, self.act_dim = obs_features, act_dim
        self.expert = self.make_expert(cfg)
        self.expert.gradient_checkpointing = cfg.gradient_checkpointing
        if cfg.lora is not None:
            add_adapters(self.expert, cfg.lora, "policy.net.lora")
        others = horizon, cfg.max_action_dim - act_dim
        drawn = torch.randn(others, generator=make_generator("padding", 0), device="cpu")
        self.register_buffer("padding", drawn)

    @abstractmethod
    def make_expert(self, cfg: Any) -> SmolVlaExpert | GemmaExpert:
        """Return the expert."""

    def embed(self, features: Prefix) -> Prefix:
        """Return the prefix as it is."""
        return features

    def summary(self, embedding: Prefix) -> Tensor:
        """Return the mean of the prefix's last states (B, C)."""
        return embedding.summary

    def forward(self, x: Tensor, t: Tensor, embedding: Prefix) -> Tensor:
        """Map chunk x (B, H, A), time t (B,), and a prefix to the velocity (B, H, A)."""
        theirs = 1.0 - t
        others = theirs[:, None, None] * self.padding.to(x)
        found = self.expert(torch.cat([x, others], dim=-1), theirs, embedding)
        return -found[..., : self.act_dim]


class SmolVlaNet(VlaNet):
    """SmolVLA's expert."""

    class Config(VlaConfig):
        """Sizes, and the backbone that the expert's follow from."""

        vlm: dict[str, Any]
        """Config of the backbone, as ``transformers`` writes it."""

    def make_expert(self, cfg: Config) -> SmolVlaExpert:
        """See ``VlaNet``."""
        from transformers import SmolVLMConfig

        return SmolVlaExpert(cfg, SmolVLMConfig.from_dict(cfg.vlm))


class Pi0Net(VlaNet):
    """π0's expert."""

    class Config(VlaConfig):
        """Sizes, and the expert's language model."""

        gemma: dict[str, Any]
        """Config of the expert, as ``transformers`` writes it."""

    def make_expert(self, cfg: Config) -> GemmaExpert:
        """See ``VlaNet``."""
        from transformers import GemmaConfig

        return Pi0Expert(cfg, GemmaConfig.from_dict(cfg.gemma))


class Pi05Net(Pi0Net):
    """π0.5's expert, which reads the state among the words of the prefix."""

    reads_vectors: ClassVar[bool] = False

    def make_expert(self, cfg: Pi0Net.Config) -> GemmaExpert:
        """See ``VlaNet``."""
        from transformers import GemmaConfig

        return Pi05Expert(cfg, GemmaConfig.from_dict(cfg.gemma))
