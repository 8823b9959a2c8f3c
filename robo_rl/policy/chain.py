"""A policy is a Markov chain of Gaussian kernels, from noise x[0] to the action chunk x[K].

Shapes: B rows, H horizon, A act_dim, K denoising steps. A network predicts, a stateless sampler
turns the prediction into the law of x[k+1] given x[k]; the draw and its log-probability come from
the same kernel. Nothing is clipped inside a chain.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


class Prediction(NamedTuple):
    """What a network says at one step: ``out`` (B, H, A), and maybe a raw noise level, likewise."""

    out: Tensor
    noise: Tensor | None = None


@dataclass(frozen=True)
class Kernel:
    """The Gaussian law of x[k+1] given x[k]; ``std`` is 0 where the step is deterministic.

    With ``rho`` the noise runs along the horizon as a stationary first-order autoregression, so
    that it moves a chunk instead of shaking it: noise[h] = ρ·noise[h−1] + √(1−ρ²)·ξ[h]. Densities
    are those of each action given the ones before it, so that the first n of them sum to the
    density of the chunk's first n actions.

    With ρ = 1 the noise is one offset of the whole chunk, and what is scored is the offset alone,
    the mean of x[k+1] − mean along the horizon: few dimensions, so that credit is found with few
    episodes. Under another mean it is a projection, not the (degenerate) density: the gradient
    moves the chunk as a whole and says nothing of its shape.

    Args:
        mean: (B, H, A).
        std: Broadcastable to mean.
        rho: Correlation of neighbouring actions' noise, in [0, 1].
    """

    mean: Tensor
    std: Tensor
    rho: float = 0.0

    def sample(self, generator: torch.Generator | None) -> Tensor:
        """Draw x[k+1], (B, H, A)."""
        noise = randn(self.mean.shape, generator).to(self.mean)
        return self.mean + self._scale() * self._correlated(noise)

    def log_prob(self, x_next: Tensor) -> Tensor:
        """Log-density of each action of x_next given those before, per element: (B, H, A).

        It is 0 where the step is deterministic.
        """
        random, std = self._random(), torch.where(self.std > 0, self._scale(), 1.0)
        z = self._white((x_next - self.mean) / std)
        spread = LOG_SQRT_2PI + std.log() + self._log_fresh(z)
        return torch.where(random, -0.5 * z * z - spread, 0.0)

    def kl(self, other: Kernel) -> Tensor:
        """KL(self ‖ other) in closed form, by the chain rule along the horizon: (B, H, A).

        Both must have the same ``rho``; 0 where either is deterministic.
        """
        ours, theirs = (torch.where(k.std > 0, k._scale(), 1.0) for k in (self, other))
        gap = (self.mean - other.mean) / theirs
        ratio = (ours / theirs).expand_as(gap)
        carried = self.rho * (ratio - _before(ratio, ratio)) / self._log_fresh(gap).exp()
        second = self._white(gap) ** 2 + ratio**2 + carried**2
        both = self._random() & other._random()
        return torch.where(both, 0.5 * (second - 1.0) - ratio.log(), 0.0)

    def _scale(self) -> Tensor:
        """The noise's std: with ρ = 1 that of the offset, the geometric mean along the horizon."""
        return self.std if self.rho < 1.0 else self.std.log().mean(dim=1, keepdim=True).exp()

    def _random(self) -> Tensor:
        """Elements that have a density; with ρ = 1 the first action's stands for the offset."""
        random = (self.std > 0).expand_as(self.mean)
        if self.rho < 1.0:
            return random
        return random & (torch.arange(self.mean.shape[1], device=random.device) == 0)[:, None]

    def _correlated(self, noise: Tensor) -> Tensor:
        if self.rho == 0.0:
            return noise
        fresh = math.sqrt(1.0 - self.rho**2)
        steps = [noise[:, 0]]
        for h in range(1, noise.shape[1]):
            steps.append(self.rho * steps[-1] + fresh * noise[:, h])
        return torch.stack(steps, dim=1)

    def _white(self, z: Tensor) -> Tensor:
        """Undo ``_correlated``; with ρ = 1 the mean along the horizon."""
        if self.rho == 0.0:
            return z
        if self.rho == 1.0:
            return z.mean(dim=1, keepdim=True).expand_as(z)
        fresh = math.sqrt(1.0 - self.rho**2)
        return torch.cat([z[:, :1], (z[:, 1:] - self.rho * z[:, :-1]) / fresh], dim=1)

    def _log_fresh(self, like: Tensor) -> Tensor:
        """Log of the share of each action's std that is its own: 0, then ½·ln(1−ρ²); (1, H, 1)."""
        own = 0.5 * math.log(1.0 - self.rho**2) if self.rho < 1.0 else 0.0
        share = torch.full((1, like.shape[1], 1), own).to(like)
        share[:, 0] = 0.0
        return share


def _before(x: Tensor, first: Tensor) -> Tensor:
    """Each step's predecessor along the horizon; the first keeps ``first``."""
    return torch.cat([first[:, :1], x[:, :-1]], dim=1)


class Sampler(Protocol):
    """A rule from network output to kernel, without state of its own.

    Args:
        times: (K,) float64, the network's time at each step, 0 = noise.
        stochastic: (K,) bool, the steps that have a density.
        learns_noise: Whether the kernel reads ``Prediction.noise``.
        reads: What ``Prediction.out`` must be: ``vel``, ``noise`` (ε) or ``act``.
    """

    times: Tensor
    stochastic: Tensor
    learns_noise: bool
    reads: str

    def start(self, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        """Draw x[0] of the given shape."""
        ...

    def kernel(self, k: Tensor, x: Tensor, prediction: Prediction) -> Kernel:
        """The law of x[k+1] for rows x (B, H, A) that stand at steps k (B,)."""
        ...


@dataclass(frozen=True)
class Chain:
    """A drawn chain.

    Args:
        x: (B, K+1, H, A).
        log_prob: (B, K, H, A), 0 at deterministic steps.
        k_star: (B,) the one stochastic step of each row, or None where all of them may be.
    """

    x: Tensor
    log_prob: Tensor
    k_star: Tensor | None = None

    @property
    def act(self) -> Tensor:
        """The action chunk (B, H, A), as the policy's network sees it (normalised)."""
        return self.x[:, -1]


Predict = Callable[[int, Tensor], Prediction]


def draw_chain(
    sampler: Sampler,
    predict: Predict,
    start: Tensor,
    generator: torch.Generator | None,
    *,
    others: Sampler | None = None,
    star_steps: Tensor | None = None,
) -> Chain:
    """Run a chain from ``start`` (B, H, A).

    Args:
        sampler: Gives the kernels.
        predict: (k, x) → what the network says of x (B, H, A) at step k.
        start: x[0].
        generator: Source of the noise.
        others: With it, each row takes ``sampler`` at one step k* only and this (deterministic)
            sampler at
            the others: the hybrid of pi_RL (arXiv 2510.25889, section 4.2).
        star_steps: (K,) bool, the steps that k* is drawn from, uniformly; all stochastic ones by
            default.
    """
    rows = len(start)
    k_star = None
    if others is not None:
        star_steps = sampler.stochastic if star_steps is None else star_steps
        k_star = _draw_step(star_steps, rows, generator).to(start.device)
    x, states, log_probs = start, [start], []
    for step in range(len(sampler.times)):
        k = torch.full((rows,), step, device=start.device)
        prediction = predict(step, x)
        kernel = sampler.kernel(k, x, prediction)
        if others is not None and k_star is not None:
            kernel = _choose(k_star == step, kernel, others.kernel(k, x, prediction))
        x = kernel.sample(generator)
        states.append(x)
        log_probs.append(kernel.log_prob(x))
    return Chain(torch.stack(states, dim=1), torch.stack(log_probs, dim=1), k_star)


def _draw_step(stochastic: Tensor, rows: int, generator: torch.Generator | None) -> Tensor:
    steps = stochastic.nonzero().flatten()
    device = None if generator is None else generator.device
    pick = torch.randint(len(steps), (rows,), generator=generator, device=device)
    return steps.to(pick.device)[pick]


def _choose(rows: Tensor, chosen: Kernel, other: Kernel) -> Kernel:
    pick = rows[:, None, None]
    return Kernel(
        torch.where(pick, chosen.mean, other.mean),
        torch.where(pick, chosen.std, other.std),
        chosen.rho,
    )


def at_step(table: Tensor, k: Tensor, like: Tensor) -> Tensor:
    """Entries of a (K,) or (K+1,) table at steps k (B,), as (B, 1, 1) of like's kind."""
    return table.to(device=like.device, dtype=like.dtype)[k][:, None, None]


def randn(shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
    """Standard normal noise on the generator's device, of the default dtype."""
    device = None if generator is None else generator.device
    return torch.randn(shape, generator=generator, device=device)


def bounded_std(raw: Tensor | None, low: float, high: float) -> Tensor:
    """Squash a raw noise level into [low, high] in log variance; None is the middle.

    log σ² = log low² + (log high² − log low²)·(tanh raw + 1)/2 (ReinFlow, arXiv 2505.22094,
    appendix).
    """
    level = torch.zeros(1, 1, 1) if raw is None else raw.tanh()
    return (math.log(low) + 0.5 * math.log(high / low) * (level + 1.0)).exp()
