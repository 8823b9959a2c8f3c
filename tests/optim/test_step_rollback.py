"""An update ends within its region: a step that leads out of it is taken back and tried smaller."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from robo_rl.optim.adaptive_lr import AdaptiveLr
from robo_rl.optim.optimizer import ClippedOptimizer
from robo_rl.optim.step_rollback import StepRollback

TARGET = 0.5


class Hill:
    """One weight that every step moves by the rate; it has led its square away from 0.

    Args:
        lr: The rate.
        low: The lowest.
    """

    def __init__(self, lr: float, low: float = 1e-6) -> None:
        self.weight = torch.nn.Parameter(torch.zeros(1))
        optimizer = ClippedOptimizer([self.weight], lr, grad_clip=1.0)
        self.rate = AdaptiveLr(optimizer, low, 1e3)

    def update(self, looks: int, target: float = TARGET) -> StepRollback:
        """Take steps as an algorithm does, the last look without one."""
        region = StepRollback(self.rate, target, [self.weight])
        for look in range(looks):
            if region.accepts(self.moved) and look < looks - 1:
                region.step(self._step)
            if region.done:
                break
        region.finish()
        return region

    @property
    def moved(self) -> float:
        return float(self.weight.detach()) ** 2

    def _step(self) -> None:
        with torch.no_grad():
            self.weight += self.rate.optimizer.lr


@pytest.mark.parametrize("lr", [0.1, 0.3, 1.0, 3.0, 10.0])
def test_no_update_ends_beyond_twice_its_target(lr: float):
    hill = Hill(lr)
    region = hill.update(12)
    assert hill.moved <= 2.0 * TARGET
    assert region.distance == hill.moved
    assert region.steps >= 1


def test_a_first_step_that_leads_too_far_is_tried_again_smaller():
    hill = Hill(10.0)  # 200 times the target
    region = hill.update(4)
    assert hill.rate.optimizer.lr == pytest.approx(1.0)  # by a tenth at most: it led to 2 targets
    assert region.steps == 1


def test_a_later_one_ends_the_update_and_lowers_the_rate():
    hill = Hill(0.4)
    region = hill.update(20)  # 0.4² and 0.8² are within 1, 1.2² is not
    assert (region.steps, region.done) == (2, True)
    assert float(hill.weight.detach()) == pytest.approx(0.8)
    assert hill.rate.optimizer.lr == pytest.approx(0.4 * (1.44 / TARGET) ** -0.5)


def test_the_last_step_is_looked_at_too():
    hill = Hill(0.6)
    assert hill.update(3).steps == 1  # of two: 1.2² was one too many
    assert hill.moved == pytest.approx(0.36)


def test_where_no_step_was_taken_back_the_rate_follows_where_the_update_ended():
    hill = Hill(0.1)
    hill.update(3)
    assert hill.rate.optimizer.lr == pytest.approx(0.15)


def test_at_the_lowest_rate_a_first_step_stays_and_later_ones_do_not():
    hill = Hill(2.0, low=2.0)
    region = hill.update(9)
    assert (region.steps, hill.moved) == (1, 4.0)
    assert region.distance == 4.0
    hill = Hill(0.8, low=0.8)
    assert hill.update(9).steps == 1
    assert hill.moved == pytest.approx(0.64)


def test_without_a_target_it_goes_anywhere_at_the_rate_it_has():
    hill = Hill(2.0)
    assert hill.update(9, target=0.0).steps == 8
    assert hill.rate.optimizer.lr == 2.0


def test_what_is_not_a_number_is_out_of_the_region():
    class Cliff(Hill):
        @property
        def moved(self) -> float:
            return math.nan if self.weight.detach() > 0.5 else 0.0

    hill = Cliff(1.0)
    hill.update(4)
    assert float(hill.weight.detach()) < 0.5


def test_all_parts_go_back():
    parts: list[Tensor] = [torch.zeros(2), torch.ones(3)]
    hill = Hill(1.0)
    region = StepRollback(hill.rate, TARGET, parts)

    def step() -> None:
        for part in parts:
            part += 5.0

    region.accepts(0.0)
    region.step(step)
    assert not region.accepts(99.0)
    assert [part.tolist() for part in parts] == [[0.0] * 2, [1.0] * 3]
