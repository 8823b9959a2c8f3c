"""Trains the success classifier: cross-entropy on batches balanced between the classes.

Few rows show a completed task, perhaps one in a hundred. Half of each batch is therefore positive
(DiWA: Nair et al. 2025, arXiv 2508.03645; HIL-SERL: Luo et al. 2024, arXiv 2410.21845).
``world.calibration.correct_prior`` restores the class frequencies.

Shapes: M members, N rows, B rows of a batch, D elements of an observation.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from robo_rl.config.models import ConfigModel
from robo_rl.core.stateful import Stateful
from robo_rl.optim.optimizer import ClippedOptimizer
from robo_rl.world.success import SuccessClassifier


class SuccessTrainer(Stateful):
    """Trains a success classifier; each member draws its own batches.

    Args:
        cfg: See Config.
        model: The classifier.
        features: (N, D), from ``SuccessClassifier.features``.
        done: (N,) bool, with rows of both classes.
        generator: Draws batches.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("model", "optimizer")

    class Config(ConfigModel):
        """Length and optimiser; ``minibatch`` is that of one member.

        Few steps and a large weight decay limit overfitting to a few dozen positive rows.
        """

        steps: int = Field(default=500, ge=1)
        """Gradient steps."""
        minibatch: int = Field(default=128, ge=2, multiple_of=2)
        """Minibatch rows of one member."""
        lr: float = Field(default=1e-3, gt=0.0)
        """Learning rate."""
        weight_decay: float = Field(default=1.0, ge=0.0)
        """Weight decay of AdamW."""
        grad_clip: float = Field(default=1.0, gt=0.0)
        """Largest gradient norm."""

    def __init__(
        self,
        cfg: Config,
        model: SuccessClassifier,
        features: Tensor,
        done: Tensor,
        generator: torch.Generator,
    ) -> None:
        self.cfg, self.model, self.features, self.generator = cfg, model, features, generator
        self.kinds = (done.nonzero().flatten(), (~done).nonzero().flatten())
        self.labels = torch.tensor([1.0, 0.0]).repeat_interleave(cfg.minibatch // 2)
        params = model.net.parameters()
        self.optimizer = ClippedOptimizer(params, cfg.lr, cfg.grad_clip, cfg.weight_decay)

    def step(self) -> dict[str, float]:
        """Take one gradient step of all members; returns their mean loss.

        Raises:
            PluginError: Gradients were not finite for long.
        """
        rows = torch.cat([self._draw(kind) for kind in self.kinds], dim=1)
        said = self.model(self.features[rows])
        each = F.binary_cross_entropy_with_logits(
            said, self.labels.expand_as(said), reduction="none"
        ).mean(dim=1)
        self.optimizer.step(each.sum())
        return {"loss": float(each.detach().mean())}

    def _draw(self, kind: Tensor) -> Tensor:
        """Draw rows of one class, (M, B/2), with replacement."""
        size = (self.model.cfg.members, self.cfg.minibatch // 2)
        return kind[torch.randint(len(kind), size, generator=self.generator)]
