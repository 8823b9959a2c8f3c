"""An actor beside a policy: it draws something small, in bounds, that makes the policy do better.

Shapes: B rows, D inputs, A outputs.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.config.models import ConfigModel
from robo_rl.core.stateful import Stateful
from robo_rl.nets.squashed import SquashedGaussian
from robo_rl.optim.optimizer import ClippedOptimizer


class AuxiliaryActor(Stateful):
    """Climbs a value, and stays random by its entropy (Haarnoja et al. 2018, arXiv 1812.05905).

    Args:
        cfg: See Config.
        inputs: D.
        outputs: A.
        bound: What it draws is in (−bound, bound).
        device: Where its network is.
    """

    class Config(ConfigModel):
        """Widths, rate, and what a nat of entropy an output is worth beside the values' mean."""

        hidden: tuple[int, ...] = Field(default=(256, 256), min_length=1)
        """Widths of the hidden layers."""
        lr: float = Field(default=3e-4, gt=0.0)
        """Learning rate."""
        grad_clip: float = Field(default=10.0, gt=0.0)
        """Largest norm of a gradient."""
        entropy_coef: float = Field(default=0.05, ge=0.0)
        """Weight of a nat of entropy per output, relative to the mean absolute value."""

    state_parts = ("net", "optimizer")

    def __init__(
        self,
        cfg: Config,
        inputs: int,
        outputs: int,
        bound: float,
        device: torch.device | str = "cpu",
    ) -> None:
        self.cfg, self.outputs, self.bound = cfg, outputs, bound
        self.net = SquashedGaussian(inputs, outputs, cfg.hidden).to(device)
        self.optimizer = ClippedOptimizer(self.net.parameters(), cfg.lr, cfg.grad_clip)

    @torch.no_grad()
    def sample(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """For inputs (B, D): (B, A)."""
        return self.bound * self.net(x, generator)[0]

    def update(
        self, x: Tensor, worth: Callable[[Tensor], Tensor], generator: torch.Generator
    ) -> Tensor:
        """One gradient step; returns what is drawn is worth on average.

        Args:
            x: (B, D).
            worth: Of draws (B, A), with gradients by them: (B,).
            generator: Draws them.

        Raises:
            PluginError: Gradients were not finite for long.
        """
        drawn, log_prob = self.net(x, generator)
        value = worth(self.bound * drawn)
        scale = value.detach().abs().mean().clamp(min=1e-6)
        loss = self.cfg.entropy_coef * log_prob / self.outputs - value / scale
        self.optimizer.step(loss.mean())
        return value.detach().mean()
