"""One optimiser step down a loss, the same for actor, critic and cloning."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any, ClassVar, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import PluginError
from robo_rl.core.stateful import Stateful
from robo_rl.distributed.process_group import sum_gradients

MAX_SKIPPED_IN_A_ROW = 20


class OptimizerConfig(ConfigModel):
    """Rows of a minibatch, and the largest norm of a gradient."""

    minibatch: int = Field(default=1024, ge=1)
    """Sample units of a gradient step."""
    grad_clip: float = Field(default=1.0, gt=0.0)
    """Largest norm of a gradient."""


class ClippedOptimizer(Stateful):
    """AdamW with gradient clipping that leaves out steps whose gradient is not finite.

    Args:
        params: What is trained.
        lr: Learning rate.
        grad_clip: Largest norm of the gradient.
        weight_decay: AdamW's.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("optim",)

    def __init__(
        self, params: Iterable[nn.Parameter], lr: float, grad_clip: float, weight_decay: float = 0.0
    ) -> None:
        self.params, self.grad_clip = list(params), grad_clip
        self.optim = torch.optim.AdamW(self.params, lr=lr, weight_decay=weight_decay, fused=True)
        device = self.params[0].device
        self._skipped = torch.zeros((), dtype=torch.int64, device=device)
        self._in_a_row = torch.zeros_like(self._skipped)
        self._asked, self._ask_every = 0, 1 if device.type == "cpu" else MAX_SKIPPED_IN_A_ROW

    @property
    def skipped(self) -> int:
        """How many steps were left out."""
        return int(self._skipped)

    @property
    def lr(self) -> float:
        """The learning rate as it stands."""
        return self.optim.param_groups[0]["lr"]

    def set_lr(self, lr: float) -> None:
        """Change the learning rate."""
        for group in self.optim.param_groups:
            group["lr"] = lr

    def step(self, loss: Tensor, share: float = 1.0) -> None:
        """One step, down the sum of all processes' losses where several train together.

        Args:
            loss: Scalar with gradient.
            share: What it is multiplied by in that sum (``minibatches.Batch``).

        Raises:
            PluginError: The gradient was not finite ``PATIENCE`` times in a row; on a GPU, which
                is not asked each time, by the next time that it is.
        """
        self.optim.zero_grad(set_to_none=True)
        (loss if share == 1.0 else share * loss).backward()
        sum_gradients(self.params)
        bad = ~nn.utils.clip_grad_norm_(self.params, self.grad_clip).isfinite()
        cast(Any, self.optim).found_inf = bad.float()  # the fused kernel leaves the step out
        self.optim.step()
        self._skipped += bad
        self._in_a_row = (self._in_a_row + 1) * bad
        self._demand_finite()

    def _demand_finite(self) -> None:
        self._asked += 1
        if self._asked % self._ask_every == 0 and int(self._in_a_row) >= MAX_SKIPPED_IN_A_ROW:
            raise PluginError(
                f"the gradient was not finite {MAX_SKIPPED_IN_A_ROW} times in a row",
                hint="look for NaN in rewards and observations; a lower learning rate may help",
            )


@contextmanager
def frozen_weights(module: nn.Module) -> Generator[None]:
    """Within it no gradients are computed of the module's weights."""
    module.requires_grad_(False)
    try:
        yield
    finally:
        module.requires_grad_(True)
