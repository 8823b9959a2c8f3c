"""The categorical kernel of one autoregressive step: it draws some elements of a chunk as tokens.

Shapes: B rows, H horizon, A act_dim, G elements of a step, V bins. A token is a bin of [−1, 1] in
normalised action units, and its value is the middle of the bin (Brohan et al. 2023, RT-2, arXiv
2307.15818, section 3.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from robo_rl.policy.kernels.base import Kernel


@dataclass(frozen=True)
class CategoricalKernel(Kernel):
    """The law of x[k+1] given x[k] where a step draws G tokens, independent of each other.

    Args:
        logits: (B, G, V).
        place: (B, G), index of each drawn element in a row of H·A elements.
        mean: (B, H, A), with the expected values of drawn elements; the others stay as they are.
        draws: (B,) bool; False for rows that are deterministic and end at ``mean``.
    """

    logits: Tensor
    place: Tensor
    mean: Tensor
    draws: Tensor

    @classmethod
    def of(cls, logits: Tensor, place: Tensor, x: Tensor) -> Self:
        """Return the kernel at x (B, H, A) that draws from ``logits`` at ``place``."""
        values = bin_values(logits.shape[-1], logits)
        found = _put((logits.softmax(dim=-1) * values).sum(dim=-1), place, x)
        return cls(logits, place, found, torch.ones_like(place[:, 0], dtype=torch.bool))

    @classmethod
    def greedy(cls, logits: Tensor, place: Tensor, x: Tensor) -> Self:
        """Return the deterministic kernel at x (B, H, A) that takes the most likely tokens."""
        found = _put(bin_values(logits.shape[-1], logits)[logits.argmax(dim=-1)], place, x)
        return cls(logits, place, found, torch.zeros_like(place[:, 0], dtype=torch.bool))

    def sample(self, generator: torch.Generator | None) -> Tensor:
        """See ``Kernel``; without gradient."""
        odds = self.logits.detach().float().softmax(dim=-1).flatten(0, 1)
        if generator is not None and odds.device != generator.device:
            odds = odds.to(generator.device)
        drawn = torch.multinomial(odds, 1, generator=generator).view(self.place.shape)
        values = bin_values(self.logits.shape[-1], self.mean)[drawn.to(self.mean.device)]
        drawn = _put(values, self.place, self.mean.detach())
        return torch.where(self.draws[:, None, None], drawn, self.mean.detach())

    def log_prob(self, x_next: Tensor) -> Tensor:
        """See ``Kernel``: log-probabilities of the tokens of x_next."""
        token = bin_of(x_next.flatten(1).gather(1, self.place), self.logits.shape[-1])
        said = self.logits.log_softmax(dim=-1).gather(-1, token[..., None]).squeeze(-1)
        return self._elements(said)

    def entropy(self) -> Tensor:
        """See ``Kernel``."""
        said = self.logits.log_softmax(dim=-1)
        return self._elements(-(said.exp() * said).sum(dim=-1))

    def kl(self, other: Kernel) -> Tensor:
        """See ``Kernel``; both draw the same elements."""
        other = self._alike(other)
        ours, theirs = (each.logits.log_softmax(dim=-1) for each in (self, other))
        both = replace(self, draws=self.draws & other.draws)
        return both._elements((ours.exp() * (ours - theirs)).sum(dim=-1))

    def has_density(self) -> Tensor:
        """See ``Kernel``."""
        return self._elements(torch.ones_like(self.logits[..., 0])) > 0

    def where(self, rows: Tensor, other: Kernel) -> Self:
        """See ``Kernel``."""
        other = self._alike(other)
        return type(self)(
            torch.where(rows[:, None, None], self.logits, other.logits),
            self.place,
            torch.where(rows[:, None, None], self.mean, other.mean),
            torch.where(rows, self.draws, other.draws),
        )

    def select(self, rows: Tensor) -> Self:
        """See ``Kernel``."""
        parts = (self.logits, self.place, self.mean, self.draws)
        return type(self)(*(part[rows] for part in parts))

    def join(self, others: Sequence[Kernel]) -> Self:
        """See ``Kernel``."""
        kernels = [self, *(self._alike(other) for other in others)]
        parts = ((each.logits, each.place, each.mean, each.draws) for each in kernels)
        return type(self)(*(torch.cat(each) for each in zip(*parts, strict=True)))

    def _elements(self, drawn: Tensor) -> Tensor:
        """Return numbers (B, G) of the drawn elements as (B, H, A), 0 elsewhere."""
        return _put(torch.where(self.draws[:, None], drawn, 0.0), self.place, 0.0 * self.mean)


def soft_bins(x: Tensor, bins: int, width: float) -> Tensor:
    """Return the odds of the bins (…, V) for numbers (…): a Gaussian of this std, in bins.

    The odds are those of the Gaussian between the edges of a bin, within [−1, 1] (HL-Gauss, Imani
    and White 2018, arXiv 1806.04613, section 3; Farebrother et al. 2024, arXiv 2403.03950).
    """
    edges = 2.0 * torch.arange(bins + 1, device=x.device).to(x.dtype) / bins - 1.0
    z = (edges - x.clamp(-1.0, 1.0)[..., None]) * (bins / (2.0 * width))
    below = torch.special.ndtr(z)
    odds = below.diff(dim=-1)
    return odds / odds.sum(dim=-1, keepdim=True)


def bin_values(bins: int, like: Tensor) -> Tensor:
    """Return the middles of the bins in [−1, 1], (V,), of ``like``'s dtype and device."""
    return (2.0 * torch.arange(bins, device=like.device) + 1.0).to(like.dtype) / bins - 1.0


def bin_of(x: Tensor, bins: int) -> Tensor:
    """Return the bins of numbers, int64 of the same shape; the outer bins take what is beyond."""
    return ((x + 1.0) * (0.5 * bins)).floor().clamp(0, bins - 1).long()


def _put(values: Tensor, place: Tensor, x: Tensor) -> Tensor:
    """Return x (B, H, A) with values (B, G) at the places (B, G)."""
    return x.flatten(1).scatter(1, place, values.to(x.dtype)).view_as(x)
