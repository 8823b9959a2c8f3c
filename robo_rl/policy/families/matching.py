"""Policies trained by denoising regression: flow matching and denoising diffusion.

Shapes: B rows, H horizon, A act_dim, C embedding width.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import torch
from torch import Tensor

from robo_rl.nets.embedding import Embedding
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.kernels.base import randn
from robo_rl.policy.placed import placed


class MatchingPolicy(DenoisingPolicy):
    """A family with a cloning loss at a given noise and time; see ``DenoisingPolicy``.

    The loss at a *given* noise and time estimates likelihood ratios without a density of the chain
    (FPO).
    """

    class Config(DenoisingPolicy.Config):
        """Denoising times that the cloning loss draws, and the weights of their errors.

        Inference asks the network at the K times of its sampler alone. ``grid`` draws these times.
        ``uniform`` draws times between them too, for a policy whose number of steps may change.

        An error of the velocity or of ε at a late time is a small error of the action.
        ``loss_weight: action`` weighs the errors of the action equally at all times, and
        ``prediction`` those of the prediction, as the papers do. Diffusion scales the action in x
        by √ᾱ, and ``action`` then weighs the errors of √ᾱ times the action.

        Suite ``cloning`` has figures of the choices.
        """

        train_times: Literal["grid", "uniform"] = "grid"
        """Times of the cloning loss: those of the K denoising steps, or all times.

        A network that predicts velocities or ε defaults to ``uniform``. ``ratio: cfm`` and the
        option ``time_sampling: bc`` of NFT draw these times too.
        """
        loss_weight: Literal["action", "prediction"] = "action"
        """Error that the cloning loss weighs equally at all times.

        A network that predicts velocities or ε defaults to ``prediction``.
        """

    cfg: Config

    def draw_noise(self, act: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw standard normal noise (B, H, A) and times t (B,) of the loss of act (B, H, A)."""
        noise, device = randn(act.shape, generator).to(act), generator.device
        if self.cfg.train_times == "uniform":
            return noise, self.draw_any_time(len(act), generator).to(act)
        step = torch.randint(self.num_steps, (len(act),), generator=generator, device=device)
        return noise, placed(self.eval_sampler.times, act)[step]

    @abstractmethod
    def draw_any_time(self, rows: int, generator: torch.Generator) -> Tensor:
        """Draw times (rows,) uniformly over the noise schedule of training."""

    @abstractmethod
    def residual_at(self, embedding: Embedding, act: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """Errors (B, H, A), prediction minus target, at act and noise (B, H, A), both normalised.

        The target does not depend on the network. At the same act, noise and t (B,), the errors of
        two networks differ by their predictions.
        """

    @abstractmethod
    def noise_fraction(self, t: Tensor) -> Tensor:
        """Share of noise in x at t (B,): converts a prediction error to an error of x."""

    def loss_at(self, embedding: Embedding, act: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """Squared errors (B, H, A) at act and noise (B, H, A), both normalised, and t (B,)."""
        return self.residual_at(embedding, act, noise, t).square()

    def loss(self, obs: dict[str, Tensor], act: Tensor, generator: torch.Generator) -> Tensor:
        """Weighted mean of ``loss_at`` at one drawn noise and time per row; (B,)."""
        act = self.from_env(obs, act)
        noise, t = self.draw_noise(act, generator)
        loss = self.loss_at(self.encode(obs), act, noise, t).mean(dim=(1, 2))
        return loss if self.cfg.loss_weight == "prediction" else self.noise_fraction(t) ** 2 * loss
