"""A gradient step with clipping, shared by actors, critics and behaviour cloning."""

from __future__ import annotations

import copy
from collections.abc import Generator, Iterable, Mapping
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
    """Minibatch size and gradient clipping."""

    minibatch: int = Field(default=1024, ge=1)
    """Sample units of a minibatch."""
    grad_clip: float = Field(default=1.0, gt=0.0)
    """Largest gradient norm."""


class ClippedOptimizer(Stateful):
    """AdamW with gradient clipping; skips steps with a gradient that is not finite.

    Args:
        params: Trained parameters.
        lr: Learning rate.
        grad_clip: Largest gradient norm.
        weight_decay: Weight decay of AdamW.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("optim", "counters")

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
        """Number of skipped steps."""
        return int(self._skipped)

    @property
    def counters(self) -> dict[str, Tensor]:
        """Numbers of skipped steps so far and in a row; a rollback leaves the first as it is."""
        return {"skipped": self._skipped, "in_a_row": self._in_a_row}

    @counters.setter
    def counters(self, value: dict[str, Tensor]) -> None:
        self._skipped = torch.maximum(self._skipped, value["skipped"].to(self._skipped.device))
        self._in_a_row = value["in_a_row"].to(self._in_a_row.device)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a state; that of an older checkpoint has no counters."""
        super().load_state_dict({"counters": self.counters, **state})

    @property
    def lr(self) -> float:
        """The current learning rate."""
        return self.optim.param_groups[0]["lr"]

    def set_lr(self, lr: float) -> None:
        """Set the learning rate."""
        for group in self.optim.param_groups:
            group["lr"] = lr

    @property
    def is_fresh(self) -> bool:
        """Whether the optimiser has taken no step."""
        return not self.optim.state

    @contextmanager
    def trial(self) -> Generator[None]:
        """Undo the steps of the context at its end: weights, optimiser state, and counters."""
        weights = [param.detach().clone() for param in self.params]
        state = copy.deepcopy(self.optim.state_dict())
        counters = self._skipped.clone(), self._in_a_row.clone(), self._asked
        try:
            yield
        finally:
            with torch.no_grad():
                for param, weight in zip(self.params, weights, strict=True):
                    param.copy_(weight)
            self.optim.load_state_dict(state)
            self._skipped, self._in_a_row, self._asked = counters

    def step(self, loss: Tensor, share: float = 1.0) -> None:
        """Take one gradient step on the sum of the losses of all processes.

        Args:
            loss: Scalar with gradient.
            share: Weight of this process's loss in that sum (``minibatches.Minibatch``).

        Raises:
            PluginError: The gradient was not finite ``MAX_SKIPPED_IN_A_ROW`` times in a row. On a
                GPU the check runs once in that many steps.
        """
        self.optim.zero_grad(set_to_none=True)
        (loss if share == 1.0 else share * loss).backward()
        sum_gradients(self.params)
        bad = ~nn.utils.clip_grad_norm_(self.params, self.grad_clip).isfinite()
        cast(Any, self.optim).found_inf = bad.float()  # the fused kernel skips the step
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
    """Disable gradients of the module's weights inside the context."""
    module.requires_grad_(False)
    try:
        yield
    finally:
        module.requires_grad_(True)
