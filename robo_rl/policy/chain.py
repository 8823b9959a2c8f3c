"""Policies as Markov chains of kernels, from x[0] to the action chunk x[K].

Shapes: B rows, H horizon, A act_dim, K denoising steps. A network predicts, and a stateless sampler
converts the prediction to the kernel of x[k+1] given x[k]. The sample and its log-probability come
from the same kernel. Values inside a chain are not clipped.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from robo_rl.policy.kernels.base import Kernel, randn
from robo_rl.policy.placed import placed

__all__ = [
    "Chain",
    "Kernel",
    "Prediction",
    "PreviousNoise",
    "Sampler",
    "at_step",
    "draw_chain",
    "mean_chain",
    "randn",
]


class Prediction(NamedTuple):
    """Network output at one step.

    Args:
        out: (B, H, A), the prediction; for tokens logits (B, H, A, V).
        noise: (B, H, A), raw noise level; None if the network has no noise head.
        executed: Number of executed actions of the chunk; None means all.
    """

    out: Tensor
    noise: Tensor | None = None
    executed: int | None = None


class Sampler(Protocol):
    """A stateless rule from network output to kernel.

    Args:
        times: (K,) float64, flow time of each step, 0 = noise.
        stochastic: (K,) bool, the steps that have a density.
        learns_noise: Whether the kernel reads ``Prediction.noise``.
        expected_prediction: Type of ``Prediction.out``: ``vel``, ``noise`` (ε), ``act``
            or ``logits``.
    """

    times: Tensor
    stochastic: Tensor
    learns_noise: bool
    expected_prediction: str

    def start(self, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        """Draw x[0] of the given shape."""
        ...

    def kernel(self, k: Tensor, x: Tensor, prediction: Prediction) -> Kernel:
        """Return the kernel of x[k+1] for rows x (B, H, A) at steps k (B,)."""
        ...


class PreviousNoise(NamedTuple):
    """Noise of the previous decision, for correlated exploration.

    Args:
        start: (B, H, A), its x[0].
        noise: (B, K, H, A), unit-variance noise of its steps; 0 at deterministic steps.
        continues: (B,) bool, False at the start of an episode, where all noise is new.
    """

    start: Tensor
    noise: Tensor
    continues: Tensor


@dataclass(frozen=True)
class Chain:
    """A sampled chain.

    Args:
        x: (B, K+1, H, A).
        log_prob: (B, K, H, A), 0 at deterministic steps.
        noise: (B, K, H, A), unit-variance noise of each step. A chain with one stochastic step
            repeats that step's noise.
        k_star: (B,) the one stochastic step of each row, or None if all steps may be stochastic.
    """

    x: Tensor
    log_prob: Tensor
    noise: Tensor
    k_star: Tensor | None = None

    @property
    def act(self) -> Tensor:
        """The action chunk (B, H, A) in normalised units."""
        return self.x[:, -1]

    def as_previous(self, continues: Tensor) -> PreviousNoise:
        """Return the chain's noise for the next decision, given continuing rows (B,)."""
        return PreviousNoise(self.x[:, 0], self.noise, continues)


Predict = Callable[[int, Tensor], Prediction]
Guide = Callable[[Sampler, Tensor, Tensor, Callable[[Tensor], Prediction]], Prediction]


def draw_chain(
    sampler: Sampler,
    predict: Predict,
    start: Tensor,
    generator: torch.Generator | None,
    *,
    others: Sampler | None = None,
    star_steps: Tensor | None = None,
    past: PreviousNoise | None = None,
    beta: float = 0.0,
    grad_steps: int | None = None,
) -> Chain:
    """Sample a chain from ``start`` (B, H, A).

    Gaussian samples are reparameterised. If gradients are on, they flow through the action to every
    prediction, or only to the last ``grad_steps`` predictions.

    Args:
        sampler: Gives the kernels.
        predict: (k, x) → network output for x (B, H, A) at step k.
        start: x[0].
        generator: Source of the noise.
        others: A deterministic sampler for all steps but one. Each row then uses ``sampler`` only
            at step k*: the hybrid of pi_RL (arXiv 2510.25889, section 4.2).
        star_steps: (K,) bool, the steps from which k* is drawn uniformly; all stochastic steps by
            default.
        past: Noise of the previous decision. Each step's noise then has correlation ``beta`` with
            it, and the score is conditional on it.
        beta: In [0, 1).
        grad_steps: K' ≤ K, the last steps through which gradients flow; all by default.
    """
    rows, steps = len(start), len(sampler.times)
    k_star = None
    if others is not None:
        star_steps = sampler.stochastic if star_steps is None else star_steps
        k_star = _draw_step(star_steps, rows, generator).to(start.device)
    frozen = 0 if grad_steps is None else steps - grad_steps
    x, states, log_probs, noises = start, [start], [], []
    for step in range(steps):
        k = torch.full((rows,), step, device=start.device)
        with torch.no_grad() if step < frozen else nullcontext():
            prediction = predict(step, x)
            own = law = sampler.kernel(k, x, prediction)
            if past is not None:
                law = own.given_previous_noise(
                    past.noise[:, step], row_correlation(past.continues, beta, x)
                )
            if others is not None and k_star is not None:
                quiet = others.kernel(k, x, prediction)
                own, law = (each.where(k_star == step, quiet) for each in (own, law))
            x = law.sample(generator)
            states.append(x)
            log_probs.append(law.log_prob(x))
            noises.append(own.noise(x).detach())
    noise = torch.stack(noises, dim=1)
    if k_star is not None:
        noise = noise[torch.arange(rows, device=k_star.device), k_star][:, None].expand_as(noise)
    return Chain(torch.stack(states, dim=1), torch.stack(log_probs, dim=1), noise, k_star)


def mean_chain(
    sampler: Sampler, predict: Predict, start: Tensor, guide: Guide | None = None
) -> Tensor:
    """Return the end x[K] of the chain from ``start`` (B, H, A) that follows the kernels' means.

    Args:
        sampler: Gives the kernels.
        predict: (k, x) → network output for x (B, H, A) at step k.
        start: x[0].
        guide: (sampler, k, x, network) → prediction in place of the network's, if given; the
            network maps x to its output at steps k (B,).
    """
    x = start
    for step in range(len(sampler.times)):
        k = torch.full((x.shape[0],), step, device=x.device)
        network = partial(predict, step)
        prediction = network(x) if guide is None else guide(sampler, k, x, network)
        x = sampler.kernel(k, x, prediction).mean
    return x


def row_correlation(continues: Tensor, beta: float, like: Tensor) -> Tensor:
    """Correlation of each row, (B, 1, 1): ``beta`` where the episode continues, else 0."""
    return (continues.to(like) * beta)[:, None, None]


def _draw_step(stochastic: Tensor, rows: int, generator: torch.Generator | None) -> Tensor:
    steps = stochastic.nonzero().flatten()
    device = None if generator is None else generator.device
    pick = torch.randint(len(steps), (rows,), generator=generator, device=device)
    return steps.to(pick.device, non_blocking=True)[pick]


def at_step(table: Tensor, k: Tensor, like: Tensor) -> Tensor:
    """Entries of a table at steps k (B,), of ``like``'s dtype.

    A table (K,) or (K+1,) gives (B, 1, 1), one by action element, (K, A), gives (B, 1, A).
    """
    found = placed(table, like)[k]
    return found[:, None, None] if found.ndim == 1 else found[:, None]
