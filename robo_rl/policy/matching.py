"""Policies trained by denoising regression: flow matching and denoising diffusion.

Shapes: B rows, H horizon, A act_dim, C embedding width.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from robo_rl.policy.base import DenoisingPolicy


class MatchingPolicy(DenoisingPolicy):
    """A family with a cloning loss at a given noise and time; see ``DenoisingPolicy``.

    The loss at a *given* noise and time estimates likelihood ratios without a density of the chain
    (FPO).
    """

    @abstractmethod
    def draw_noise(self, act: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw noise (B, H, A) and times t (B,) of the loss of act (B, H, A)."""

    @abstractmethod
    def residual_at(self, embedding: Tensor, act: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """Errors (B, H, A), prediction minus target, at act and noise (B, H, A), both normalised.

        The target does not depend on the network. At the same act, noise and t (B,), the errors of
        two networks differ by their predictions.
        """

    @abstractmethod
    def noise_fraction(self, t: Tensor) -> Tensor:
        """Share of noise in x at t (B,): converts a prediction error to an error of x."""

    def loss_at(self, embedding: Tensor, act: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """Squared errors (B, H, A) at act and noise (B, H, A), both normalised, and t (B,)."""
        return self.residual_at(embedding, act, noise, t).square()

    def loss(self, obs: dict[str, Tensor], act: Tensor, generator: torch.Generator) -> Tensor:
        """Mean of ``loss_at`` at one drawn noise and time per row; (B,)."""
        act = self.normalizer.normalize("act", act)
        noise, t = self.draw_noise(act, generator)
        return self.loss_at(self.encode(obs), act, noise, t).mean(dim=(1, 2))
