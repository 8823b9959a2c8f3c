"""The Gaussian policy: a chain of one step, from zero to an action around the network's mean.

Shapes: B rows, H horizon, A act_dim.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from robo_rl.config.registry import Component, component, default
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.chain import Prediction, Sampler
from robo_rl.policy.inpaint import InpaintTarget
from robo_rl.policy.kernel import Kernel
from robo_rl.policy.noise import LearntStd, learnt_std


class Gaussian:
    """x[1] ~ N(network's mean, σ²), σ learnt between bounds; x[0] = 0.

    Args:
        cfg: Bounds of σ in normalised action units.
        num_steps: Always 1.
    """

    class Config(LearntStd):
        """Bounds of the learnt standard deviation, in normalised action units."""

    learns_noise = True
    expected_prediction = "act"

    def __init__(self, cfg: Config, num_steps: int = 1) -> None:
        self.cfg = cfg
        self.times = torch.zeros(num_steps, dtype=torch.float64)
        self.stochastic = torch.ones(num_steps, dtype=torch.bool)

    def start(self, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        """Zeros."""
        return torch.zeros(shape, device=None if generator is None else generator.device)

    def kernel(self, k: Tensor, x: Tensor, prediction: Prediction) -> Kernel:
        """Mean as predicted."""
        del k, x
        return Kernel(prediction.out, learnt_std(prediction.noise, self.cfg))

    def predicted_action(self, k: Tensor, x: Tensor, prediction: Prediction) -> Tensor:
        """The mean."""
        del k, x
        return prediction.out

    def prediction_for(self, k: Tensor, x: Tensor, act: Tensor) -> Tensor:
        """``act`` as the mean."""
        del k, x
        return act

    def signal_and_noise(self, k: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """There is no noise in x: nothing to be guided."""
        del k
        return torch.ones_like(x[:, :1, :1]), torch.zeros_like(x[:, :1, :1])


class StateIndependentNoise(nn.Module):
    """One raw noise level an action element, whatever the observation."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.raw = nn.Parameter(torch.zeros(size))

    def forward(self, embedding: Tensor) -> Tensor:
        """(B, C) → (B, size)."""
        return self.raw.expand(embedding.shape[0], -1)


class GaussianPolicy(DenoisingPolicy):
    """A mean network with state-independent noise; the family's K is 1."""

    family: ClassVar[str] = "gaussian"

    class Config(DenoisingPolicy.Config):
        """``sampler`` holds the bounds of the noise."""

        num_steps: int = Field(default=1, ge=1, le=1)
        """Steps of a chain, always 1."""
        expected_prediction: ClassVar[str] = "act"
        sampler: Annotated[Component[Sampler], component("samplers")] = default("gaussian")
        """Sampler, which bounds the noise."""

    def make_eval_sampler(self, num_steps: int) -> Sampler:
        """The same sampler, whose mean is what evaluation takes."""
        return Gaussian(Gaussian.Config(), num_steps)

    def decode_normalized(
        self, obs: dict[str, Tensor], noise: Tensor, plan: InpaintTarget | None = None
    ) -> Tensor:
        """The mean, whatever the noise."""
        return super().decode_normalized(obs, torch.zeros_like(noise), plan)

    def make_noise_head(self) -> nn.Module:
        """State-independent noise, as is usual in PPO."""
        return StateIndependentNoise(self.horizon * self.act_spec.size)

    def loss(self, obs: dict[str, Tensor], act: Tensor, generator: torch.Generator) -> Tensor:
        """Mean squared error of the mean in normalised units; (B,)."""
        del generator
        act = self.normalizer.normalize("act", act)
        x = torch.zeros_like(act)
        mean = self.net(x, torch.zeros_like(act[:, 0, 0]), self.encode(obs))
        return (mean - act).square().mean(dim=(1, 2))
