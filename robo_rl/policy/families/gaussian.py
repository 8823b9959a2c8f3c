"""The Gaussian policy: a chain of one step, from zero to an action around the network's mean.

Shapes: B rows, H horizon, A act_dim.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from robo_rl.config.component import Component, component, default
from robo_rl.nets.embedding import Embedding
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.chain import Prediction, Sampler
from robo_rl.policy.inpaint import InpaintTarget
from robo_rl.policy.kernels.gaussian import GaussianKernel
from robo_rl.policy.noise import LearntStd, StdScale, learnt_std


class Gaussian:
    """x[1] ~ N(network's mean, σ²), σ learnt between bounds; x[0] = 0.

    Args:
        cfg: Bounds of σ in units of ``std_unit``.
        num_steps: Always 1.
        scale: See ``StdScale``.
    """

    class Config(LearntStd):
        """Bounds of the learnt standard deviation, in units of ``std_unit``."""

    learns_noise = True
    expected_prediction = "act"

    def __init__(self, cfg: Config, num_steps: int = 1, scale: StdScale = 1.0) -> None:
        self.cfg, self.scale = cfg, scale
        self.times = torch.zeros(num_steps, dtype=torch.float64)
        self.stochastic = torch.ones(num_steps, dtype=torch.bool)

    def start(self, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        """Return zeros of the given shape."""
        return torch.zeros(shape, device=None if generator is None else generator.device)

    def kernel(self, k: Tensor, x: Tensor, prediction: Prediction) -> GaussianKernel:
        """Return the kernel with the predicted mean and the learnt std."""
        del k
        std = learnt_std(prediction.noise, self.cfg, x, self.scale)
        return GaussianKernel(prediction.out, std)

    def predicted_action(self, k: Tensor, x: Tensor, prediction: Prediction) -> Tensor:
        """Return the mean."""
        del k, x
        return prediction.out

    def prediction_for(self, k: Tensor, x: Tensor, act: Tensor) -> Tensor:
        """Return ``act``, the mean."""
        del k, x
        return act

    def signal_and_noise(self, k: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return coefficients 1 of the action and 0 of noise, so inpainting has no guidance."""
        del k
        return torch.ones_like(x[:, :1, :1]), torch.zeros_like(x[:, :1, :1])


class StateIndependentNoise(nn.Module):
    """One raw noise level per action element, independent of the observation."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.raw = nn.Parameter(torch.zeros(size))

    def forward(self, embedding: Tensor) -> Tensor:
        """Return the raw levels for embeddings (B, C): (B, size)."""
        return self.raw.expand(embedding.shape[0], -1)


class GaussianPolicy(DenoisingPolicy):
    """A mean network with state-independent noise and one step, K = 1."""

    maps_noise: ClassVar[bool] = False

    class Config(DenoisingPolicy.Config):
        """``sampler`` holds the bounds of the noise."""

        num_steps: int = Field(default=1, ge=1, le=1)
        """Steps of a chain, always 1."""
        expected_prediction: ClassVar[str] = "act"
        sampler: Annotated[Component[Sampler], component("samplers")] = default("gaussian")
        """Sampler, which bounds the noise."""

    def make_eval_sampler(self, num_steps: int) -> Sampler:
        """Return a Gaussian sampler; evaluation takes its mean."""
        return Gaussian(Gaussian.Config(), num_steps)

    def decode_normalized(
        self,
        obs: dict[str, Tensor],
        noise: Tensor,
        plan: InpaintTarget | None = None,
        encoded: Embedding | None = None,
    ) -> Tensor:
        """Return the mean; ``noise`` has no effect."""
        return super().decode_normalized(obs, torch.zeros_like(noise), plan, encoded)

    def make_noise_head(self) -> nn.Module:
        """Return state-independent noise, as is usual in PPO."""
        return StateIndependentNoise(self.horizon * self.act_spec.size)

    def loss(self, obs: dict[str, Tensor], act: Tensor, generator: torch.Generator) -> Tensor:
        """Mean squared error of the mean in normalised units; (B,)."""
        del generator
        act = self.from_env(obs, act)
        x = torch.zeros_like(act)
        mean = self.net(x, torch.zeros_like(act[:, 0, 0]), self.encode(obs))
        return (mean - act).square().mean(dim=(1, 2))
