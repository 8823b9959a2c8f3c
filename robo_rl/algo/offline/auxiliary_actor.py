"""A small bounded actor whose output modifies a policy: DSRL's noise or EXPO's edits.

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
    """Maximises a value with an entropy bonus (Haarnoja et al. 2018, arXiv 1812.05905).

    Args:
        cfg: See Config.
        inputs: D.
        outputs: A.
        bound: What it draws is in (−bound, bound).
        device: Where its network is.
    """

    class Config(ConfigModel):
        """Network widths, optimiser, and entropy bonus."""

        hidden: tuple[int, ...] = Field(default=(256, 256), min_length=1)
        """Widths of the hidden layers."""
        lr: float = Field(default=3e-4, gt=0.0)
        """Learning rate."""
        grad_clip: float = Field(default=10.0, gt=0.0)
        """Largest gradient norm."""
        entropy_coef: float = Field(default=0.05, ge=0.0)
        """Weight of one nat of entropy per output, relative to the mean absolute value."""

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
        """Sample outputs (B, A) for inputs (B, D)."""
        return self.bound * self.net(x, generator)[0]

    def update(
        self, x: Tensor, worth: Callable[[Tensor], Tensor], generator: torch.Generator
    ) -> Tensor:
        """Take one gradient step; returns the mean value of the sampled outputs.

        Args:
            x: (B, D).
            worth: Maps outputs (B, A) to differentiable values (B,).
            generator: Draws the outputs.

        Raises:
            PluginError: Gradients were not finite for long.
        """
        drawn, log_prob = self.net(x, generator)
        value = worth(self.bound * drawn)
        scale = value.detach().abs().mean().clamp(min=1e-6)
        loss = self.cfg.entropy_coef * log_prob / self.outputs - value / scale
        self.optimizer.step(loss.mean())
        return value.detach().mean()
