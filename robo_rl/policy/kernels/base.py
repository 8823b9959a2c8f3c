"""The interface of a kernel, the law of x[k+1] given x[k].

Shapes: B rows, H horizon, A act_dim.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from robo_rl.core.errors import SpecError


class Kernel(ABC):
    """The law of x[k+1] given x[k]: sampling, log-density, and divergence.

    A kernel whose sample is a function of Gaussian noise says so by ``noise`` and
    ``given_previous_noise``. The defaults are those of a kernel without noise.

    Attributes:
        mean: (B, H, A), the expected value; the value of a deterministic kernel.
    """

    mean: Tensor

    @abstractmethod
    def sample(self, generator: torch.Generator | None) -> Tensor:
        """Sample x[k+1], (B, H, A)."""

    @abstractmethod
    def log_prob(self, x_next: Tensor) -> Tensor:
        """Log-density of x_next per element, (B, H, A); 0 where an element is deterministic."""

    @abstractmethod
    def entropy(self) -> Tensor:
        """Entropy per element in nats, (B, H, A); 0 where an element is deterministic."""

    @abstractmethod
    def kl(self, other: Kernel) -> Tensor:
        """KL(self ‖ other) per element in nats, (B, H, A); 0 where either is deterministic."""

    @abstractmethod
    def has_density(self) -> Tensor:
        """Mask (B, H, A) of the elements that ``log_prob`` scores."""

    @abstractmethod
    def where(self, rows: Tensor, other: Kernel) -> Self:
        """Return this kernel in the rows (B,) bool that are true, and the other one elsewhere."""

    @abstractmethod
    def select(self, rows: Tensor) -> Self:
        """Return the kernel of rows (R,), indices."""

    @abstractmethod
    def join(self, others: Sequence[Kernel]) -> Self:
        """Return this kernel with others of the same settings below it."""

    def kl_shape_term(self, other: Kernel) -> Tensor:
        """The part of a KL of chunks that ``kl`` omits, (B, H, A)."""
        del other
        return torch.zeros_like(self.mean)

    def noise(self, x_next: Tensor) -> Tensor:
        """Return the unit-variance noise of x_next, (B, H, A)."""
        return torch.zeros_like(x_next)

    def given_previous_noise(self, before: Tensor, beta: Tensor) -> Self:
        """Return the law for noise that is correlated with ``before`` (B, H, A) by ``beta``."""
        del before, beta
        return self

    def with_spread(self, std_floor: float) -> Self:
        """Return the law with independent noise of at least this std, for KLs that stay finite."""
        del std_floor
        return self

    def _alike(self, other: Kernel) -> Self:
        """Return the other kernel, which must be of the same kind.

        Raises:
            SpecError: It is of another kind.
        """
        if not isinstance(other, type(self)):
            raise SpecError(
                "two kernels are of different kinds",
                expected=type(self).__name__,
                found=type(other).__name__,
            )
        return other


def randn(shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
    """Standard normal noise on the generator's device, of the default dtype."""
    device = None if generator is None else generator.device
    return torch.randn(shape, generator=generator, device=device)
