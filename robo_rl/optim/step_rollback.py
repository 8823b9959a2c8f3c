"""Rolls back the last gradient step if it exceeds a bound, such as a KL target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import torch
from torch import Tensor

from robo_rl.optim.adaptive_lr import AdaptiveLr
from robo_rl.optim.minibatches import Minibatch


class StepRollback:
    """The gradient steps of one update, which stays within twice its target distance.

    The effect of a step on the policy is known only after the step. The first step of Adam may
    exceed the target by a factor of 100. The previous weights are therefore kept until a minibatch
    has measured the new ones.

    If the first step is rolled back, it is repeated at a lower learning rate. At the lowest
    learning rate the step is kept.

    Args:
        rate: Falls after a rollback; otherwise adapts to the final distance of the update.
        target: Target distance of an update, in the measure of ``accepts``; 0 is no bound.
        parts: Tensors that a step changes, without the optimiser's own state.
        power: The distance of a step grows with this power of its learning rate: 2 for a KL, 1 for
            a root mean square.

    Attributes:
        steps: Number of steps that the update keeps.
        rollbacks: Number of steps that were rolled back.
        distance: Distance of the update, in the measure of ``accepts``.
        measurement: Index of the call of ``accepts`` that measured ``distance``.
    """

    def __init__(
        self, rate: AdaptiveLr, target: float, parts: Sequence[Tensor], *, power: float = 2.0
    ) -> None:
        self.rate, self.target, self._parts, self._power = rate, target, list(parts), power
        self.steps, self.rollbacks, self.distance, self.done = 0, 0, 0.0, False
        self.measurement, self._measured = 0, 0
        self._before, self._fell = list[Tensor](), False

    def descend(
        self,
        batches: Iterable[tuple[Minibatch, bool]],
        measure: Callable[[Minibatch], tuple[Tensor, float]],
        step: Callable[[Tensor, float], None],
    ) -> None:
        """Take the steps of the update until the distance exceeds the bound.

        Args:
            batches: See ``Minibatches.epochs``.
            measure: Returns a minibatch's loss, and the distance of the update measured on it.
            step: Takes one step, given a loss and the minibatch's share.
        """
        for batch, goes_on in batches:
            loss, moved = measure(batch)
            if self.accepts(moved) and goes_on:
                self.step(partial(step, loss, batch.weight))
            if self.done:
                break
        self.finish()

    def accepts(self, moved: float) -> bool:
        """Return whether the update may continue, given its distance on a minibatch.

        If not, the last step is rolled back, and ``done`` tells whether the update ends.
        """
        self._measured += 1
        if not self.target or moved <= 2.0 * self.target:  # NaN exceeds the bound
            self._keep(moved)
            return True
        fell = bool(self._before) and self.rate.back_off(moved / self.target, self._power)
        if fell or self.steps > 1:
            self._take_back()
        else:
            self._keep(moved)
        self._fell, self.done = self._fell or fell, not fell or self.steps > 0
        return False

    def step(self, take: Callable[[], None]) -> None:
        """Take one step, and store the previous weights."""
        if self.target:
            self._before = [part.detach().clone() for part in self._parts]
        take()
        self.steps += 1

    def finish(self) -> None:
        """Adapt the learning rate at the end of the update."""
        self.rate.recover(adaptive=self.target > 0)
        if self.target and not self._fell:
            self.rate.adapt(self.distance, self.target)

    def _keep(self, moved: float) -> None:
        self.distance, self.measurement = moved, self._measured - 1

    @torch.no_grad()
    def _take_back(self) -> None:
        for part, before in zip(self._parts, self._before, strict=True):
            part.copy_(before)
        self._before, self.steps = [], self.steps - 1
        self.rollbacks += 1
