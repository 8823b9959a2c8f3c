"""Steps within a region: the next minibatch takes back the one that it finds has left it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import torch
from torch import Tensor

from robo_rl.optim.adaptive_lr import AdaptiveLr
from robo_rl.optim.minibatches import Minibatch


class StepRollback:
    """The steps of one update, which ends no further away than twice its target.

    A step is sized by its learning rate, and what it does to the policy is known only afterwards: a
    first one of Adam's may lead a hundred times too far. So the weights of before are kept until a
    minibatch was looked at with those of after. A first step that is taken back is tried again at
    the rate that is left; at the lowest rate it stays, wherever it leads.

    Args:
        rate: Falls with a step that is taken back; else follows where the update ended.
        target: How far an update is meant to lead, in the measure of ``accepts``; 0 for anywhere.
        parts: All that a step changes but the optimiser's own state.
    """

    def __init__(self, rate: AdaptiveLr, target: float, parts: Sequence[Tensor]) -> None:
        self.rate, self.target, self._parts = rate, target, list(parts)
        self.steps, self.distance, self.done = 0, 0.0, False
        self._before, self._fell = list[Tensor](), False

    def descend(
        self,
        batches: Iterable[tuple[Minibatch, bool]],
        measure: Callable[[Minibatch], tuple[Tensor, float]],
        step: Callable[[Tensor, float], None],
    ) -> None:
        """All steps of the update, as long as it stays within the region.

        Args:
            batches: See ``Minibatches.epochs``.
            measure: A minibatch's loss, and how far the update has led by its word.
            step: Takes one step, of a loss and the minibatch's share.
        """
        for batch, goes_on in batches:
            loss, moved = measure(batch)
            if self.accepts(moved) and goes_on:
                self.step(partial(step, loss, batch.weight))
            if self.done:
                break
        self.finish()

    def accepts(self, moved: float) -> bool:
        """Whether to go on from here, of a minibatch's word on how far the update has led.

        If not, the last step was taken back, and ``done`` says whether the update ends with that.
        """
        if not self.target or moved <= 2.0 * self.target:  # NaN is not
            self.distance = moved
            return True
        fell = bool(self._before) and self.rate.back_off(moved / self.target)
        if fell or self.steps > 1:
            self._take_back()
        else:
            self.distance = moved
        self._fell, self.done = self._fell or fell, not fell or self.steps > 0
        return False

    def step(self, take: Callable[[], None]) -> None:
        """Take one."""
        if self.target:
            self._before = [part.detach().clone() for part in self._parts]
        take()
        self.steps += 1

    def finish(self) -> None:
        """The end of the update."""
        self.rate.recover(adaptive=self.target > 0)
        if self.target and not self._fell:
            self.rate.adapt(self.distance, self.target)

    @torch.no_grad()
    def _take_back(self) -> None:
        for part, before in zip(self._parts, self._before, strict=True):
            part.copy_(before)
        self._before, self.steps = [], self.steps - 1
