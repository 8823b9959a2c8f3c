"""Policies that are cloned by undoing noise: flow matching and denoising diffusion.

Shapes: B rows, H horizon, A act_dim, C embedding width.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from robo_rl.policy.base import DenoisingPolicy


class MatchingPolicy(DenoisingPolicy):
    """A family whose cloning loss is an error at some noise and time; see ``DenoisingPolicy``.

    The loss at a *given* noise and time is what a likelihood ratio can be estimated from where a
    chain has none (FPO).
    """

    @abstractmethod
    def draw_noise(self, act: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Noise (B, H, A) and times t (B,) as the loss of act (B, H, A) draws them."""

    @abstractmethod
    def residual_at(self, embedding: Tensor, act: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """Errors (B, H, A), prediction minus target, at act and noise (B, H, A), both normalised.

        The target is the same for any network, so that errors of two networks at the same act,
        noise and t (B,) differ as their predictions do.
        """

    @abstractmethod
    def noise_fraction(self, t: Tensor) -> Tensor:
        """The share of noise in x at t (B,): turns an error of the prediction into one of x."""

    def loss_at(self, embedding: Tensor, act: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """Squared errors (B, H, A) at act and noise (B, H, A), both normalised, and t (B,)."""
        return self.residual_at(embedding, act, noise, t).square()

    def loss(self, obs: dict[str, Tensor], act: Tensor, generator: torch.Generator) -> Tensor:
        """The mean of ``loss_at`` at one drawn noise and time a row; (B,)."""
        act = self.normalizer.normalize("act", act)
        noise, t = self.draw_noise(act, generator)
        return self.loss_at(self.encode(obs), act, noise, t).mean(dim=(1, 2))
