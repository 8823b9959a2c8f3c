"""The Gaussian kernel of one denoising step: sampling, log-density, and recovery of the noise.

Shapes: B rows, H horizon, A act_dim. A sample is mean + std·noise with noise of unit variance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from robo_rl.policy.kernels.base import Kernel, randn

LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True)
class GaussianKernel(Kernel):
    """The Gaussian law of x[k+1] given x[k]; ``std`` is 0 at deterministic steps.

    With ``rho`` the noise along the horizon is a stationary first-order autoregression, which
    shifts a chunk smoothly: noise[h] = ρ·noise[h−1] + √(1−ρ²)·ξ[h]. The density of each action is
    conditional on the actions before it. The first n densities therefore sum to the log-density of
    the first n actions.

    With ρ = 1 the noise is one offset of the whole chunk. The score is then that of the offset: the
    mean of x[k+1] − mean over the executed actions. The offset has few dimensions, so advantage
    estimates need few episodes. Under another mean this is a projection, not the degenerate
    density. The gradient shifts the executed part as a whole and does not change its shape.

    Args:
        mean: (B, H, A).
        std: Broadcastable to mean.
        rho: Correlation of neighbouring actions' noise, in [0, 1].
        executed: E ≤ H, number of executed actions of the chunk; None means all.
    """

    mean: Tensor
    std: Tensor
    rho: float = 0.0
    executed: int | None = None

    def sample(self, generator: torch.Generator | None) -> Tensor:
        """Sample x[k+1], (B, H, A), reparameterised: gradients reach mean and std."""
        noise = randn(self.mean.shape, generator).to(self.mean)
        return self.from_noise(self._correlated(noise))

    def from_noise(self, noise: Tensor) -> Tensor:
        """Return x[k+1] = mean + std·noise for noise (B, H, A), the inverse of ``noise``."""
        return self.mean + self.scale() * noise

    def noise(self, x_next: Tensor) -> Tensor:
        """Return the noise of x_next, (x_next − mean)/std: (B, H, A), 0 where std is 0.

        With ρ = 1 it is the offset's noise, constant along the horizon.
        """
        z = (x_next - self.mean) / torch.where(self.std > 0, self.scale(), 1.0)
        z = z if self.rho < 1.0 else self._offset(z).expand_as(z)
        return torch.where(self.std > 0, z, 0.0)

    def given_previous_noise(self, before: Tensor, beta: Tensor) -> Self:
        """Return the law for noise β·before + √(1−β²)·fresh, conditional on ``before``.

        If ``before`` is standard normal, the noise has unit variance again, and the marginal law is
        this kernel.

        Args:
            before: (B, H, A), from ``noise``.
            beta: β in [0, 1), broadcastable to mean.
        """
        mean = self.mean + self.scale() * beta * before
        return replace(self, mean=mean, std=self.std * (1.0 - beta**2).sqrt())

    def log_prob(self, x_next: Tensor) -> Tensor:
        """Log-density of each action of x_next given those before, per element: (B, H, A).

        It is 0 at deterministic steps.
        """
        random, std = self.has_density(), torch.where(self.std > 0, self.scale(), 1.0)
        z = self._white((x_next - self.mean) / std)
        spread = LOG_SQRT_2PI + std.log() + self._log_fresh(z)
        return torch.where(random, -0.5 * z * z - spread, 0.0)

    def entropy(self) -> Tensor:
        """Differential entropy of each action given those before, in nats: (B, H, A).

        ½·ln(2πe·σ²) of the conditional std; 0 at deterministic steps.
        """
        std = torch.where(self.std > 0, self.scale(), 1.0)
        spread = 0.5 + LOG_SQRT_2PI + std.log() + self._log_fresh(self.mean)
        return torch.where(self.has_density(), spread, 0.0)

    def kl(self, other: Kernel) -> Tensor:
        """KL(self ‖ other) in closed form, by the chain rule along the horizon: (B, H, A).

        Both kernels must have the same ``rho``; 0 where either is deterministic.
        """
        other = self._alike(other)
        ours, theirs = (torch.where(k.std > 0, k.scale(), 1.0) for k in (self, other))
        gap = (self.mean - other.mean) / theirs
        ratio = (ours / theirs).expand_as(gap)
        carried = self.rho * (ratio - _before(ratio, ratio)) / self._log_fresh(gap).exp()
        second = self._white(gap) ** 2 + ratio**2 + carried**2
        both = self.has_density() & other.has_density()
        return torch.where(both, 0.5 * (second - 1.0) - ratio.log(), 0.0)

    def kl_shape_term(self, other: Kernel) -> Tensor:
        """The part of the KL that ``kl`` omits with ρ = 1: squared differences in shape, (B, H, A).

        ½·((μ − μ')/σ' minus its mean over the executed actions)². With this term, the sum over the
        executed actions is 0 only if the means are equal. It is 0 for ρ < 1, where ``kl`` is
        complete.
        """
        if self.rho < 1.0:
            return torch.zeros_like(self.mean)
        other = self._alike(other)
        gap = (self.mean - other.mean) / torch.where(other.std > 0, other.scale(), 1.0)
        both = ((self.std > 0) & (other.std > 0)).expand_as(gap)
        return torch.where(both, 0.5 * (gap - self._offset(gap)).square(), 0.0)

    def has_density(self) -> Tensor:
        """See ``Kernel``; with ρ = 1 only the first action, for the offset."""
        random = (self.std > 0).expand_as(self.mean)
        if self.rho < 1.0:
            return random
        return random & (torch.arange(self.mean.shape[1], device=random.device) == 0)[:, None]

    def where(self, rows: Tensor, other: Kernel) -> Self:
        """See ``Kernel``; correlations along the horizon are those of this kernel."""
        pick, other = rows[:, None, None], self._alike(other)
        mean = torch.where(pick, self.mean, other.mean)
        return replace(self, mean=mean, std=torch.where(pick, self.std, other.std))

    def select(self, rows: Tensor) -> Self:
        """See ``Kernel``."""
        return replace(self, mean=self.mean[rows], std=self._std_of_rows()[rows])

    def join(self, others: Sequence[Kernel]) -> Self:
        """See ``Kernel``."""
        parts = [self, *(self._alike(other) for other in others)]
        std = torch.cat([each._std_of_rows() for each in parts])
        return replace(self, mean=torch.cat([each.mean for each in parts]), std=std)

    def with_spread(self, std_floor: float) -> Self:
        """See ``Kernel``."""
        return replace(self, std=self.std.clamp(min=std_floor), rho=0.0)

    def scale(self) -> Tensor:
        """Std of the noise; with ρ = 1 that of the offset, the geometric mean along the horizon."""
        return self.std if self.rho < 1.0 else self.std.log().mean(dim=1, keepdim=True).exp()

    def _std_of_rows(self) -> Tensor:
        return self.std.expand(len(self.mean), *self.std.shape[1:])

    def _correlated(self, noise: Tensor) -> Tensor:
        if self.rho == 0.0:
            return noise
        fresh = math.sqrt(1.0 - self.rho**2)
        steps = [noise[:, 0]]
        for h in range(1, noise.shape[1]):
            steps.append(self.rho * steps[-1] + fresh * noise[:, h])
        return torch.stack(steps, dim=1)

    def _white(self, z: Tensor) -> Tensor:
        """Invert ``_correlated``; with ρ = 1 return the offset for every action."""
        if self.rho == 0.0:
            return z
        if self.rho == 1.0:
            return self._offset(z).expand_as(z)
        fresh = math.sqrt(1.0 - self.rho**2)
        return torch.cat([z[:, :1], (z[:, 1:] - self.rho * z[:, :-1]) / fresh], dim=1)

    def _offset(self, z: Tensor) -> Tensor:
        """Mean over the executed actions: (B, 1, A)."""
        return z[:, : self.executed].mean(dim=1, keepdim=True)

    def _log_fresh(self, like: Tensor) -> Tensor:
        """Log share of new noise in each action's std: 0, then ½·ln(1−ρ²); (1, H, 1)."""
        own = 0.5 * math.log(1.0 - self.rho**2) if self.rho < 1.0 else 0.0
        share = like.new_full((1, like.shape[1], 1), own)
        share[:, 0] = 0.0
        return share


def _before(x: Tensor, first: Tensor) -> Tensor:
    """Shift by one along the horizon; the first element is that of ``first``."""
    return torch.cat([first[:, :1], x[:, :-1]], dim=1)
