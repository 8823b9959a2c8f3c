"""Noise for scripted demonstrators, correlated in time like the motion of a human hand."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class OrnsteinUhlenbeckNoise:
    """A stationary Ornstein-Uhlenbeck process per env, of standard deviation 1.

    x' = a x + sqrt(1 - a²) ε with a = exp(-dt/τ): its autocorrelation falls to 1/e within τ.

    Args:
        num_envs: B.
        size: n, independent processes per env.
        dt_s: Time between samples.
        time_constant_s: τ.
        generator: Source of the draws.
    """

    def __init__(
        self,
        num_envs: int,
        size: int,
        dt_s: float,
        time_constant_s: float,
        generator: torch.Generator,
    ) -> None:
        import torch

        self._decay = math.exp(-dt_s / time_constant_s)
        self._generator = generator
        self._state = torch.zeros(num_envs, size)

    def reset(self, ids: Tensor) -> None:
        """Draw the state of the envs ids (n,) from the stationary distribution."""
        import torch

        self._state[ids] = torch.randn(len(ids), self._state.shape[1], generator=self._generator)

    def sample(self) -> Tensor:
        """Return the next sample, (B, n)."""
        import torch

        fresh = torch.randn(self._state.shape, generator=self._generator)
        self._state = self._decay * self._state + math.sqrt(1 - self._decay**2) * fresh
        return self._state
