"""The probe finds the rate of a step that moves as far as asked, and leaves nothing behind."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from robo_rl.optim.adaptive_lr import AdaptiveLr
from robo_rl.optim.optimizer import ClippedOptimizer
from robo_rl.optim.step_probe import CLOSE, probe_lr, step_target


class Bowl:
    """Weights whose step moves a distance of curvature·‖step‖², measured from their start.

    Args:
        lr: The configured rate.
        curvature: Distance per squared length.
    """

    def __init__(self, lr: float, curvature: float) -> None:
        self.weight = torch.nn.Parameter(torch.linspace(-1.0, 1.0, 8))
        self.start, self.curvature, self.tries = self.weight.detach().clone(), curvature, 0
        self.optimizer = ClippedOptimizer([self.weight], lr, grad_clip=1.0)
        self.rate = AdaptiveLr(self.optimizer, 1e-6, 1e-1)

    def probe(self, target: float) -> None:
        probe_lr(self.rate, target, self.step, self.measure)

    def step(self) -> None:
        self.tries += 1
        self.optimizer.step((self.weight * torch.arange(1.0, 9.0)).sum())

    def measure(self) -> float:
        return self.curvature * float((self.weight.detach() - self.start).square().sum())


@pytest.mark.parametrize("lr", [1e-5, 1e-3, 1e-1])
@pytest.mark.parametrize("curvature", [10.0, 1e5])
def test_one_step_then_moves_within_a_factor_of_three_of_its_target(lr: float, curvature: float):
    bowl = Bowl(lr, curvature)
    bowl.probe(0.02)
    bowl.step()
    assert 1 / 3 < bowl.measure() / 0.02 < 3.0


def test_a_law_that_is_badly_off_is_tried_again():
    """The distance grows with the fourth power, so one correction is not enough."""
    bowl = Bowl(1e-1, 1e3)
    quadratic = bowl.measure
    bowl.measure = lambda: quadratic() ** 2
    bowl.probe(0.02)
    bowl.step()
    assert bowl.tries > 2
    assert 1 / 3 < bowl.measure() / 0.02 < 3.0


def test_a_rate_that_is_good_is_left_as_it_is():
    bowl = Bowl(1e-3, 1.0)
    bowl.step()
    moved = bowl.measure()
    bowl = Bowl(1e-3, 1.0)
    bowl.probe(0.9 * CLOSE * moved)
    assert bowl.optimizer.lr == 1e-3


@pytest.mark.parametrize("curvature", [0.0, 1e-12, math.nan])
def test_the_rate_stays_within_its_bounds(curvature: float):
    bowl = Bowl(1e-3, curvature)
    bowl.probe(1.0)
    want = 1e-3 if curvature == 0.0 else 1e-1 if curvature > 0.0 else 1e-6
    assert bowl.optimizer.lr == pytest.approx(want)


@pytest.mark.parametrize("steps", [0, 3])
def test_a_trial_leaves_weights_and_optimiser_as_they_were_to_the_bit(steps: int):
    bowl = Bowl(1e-2, 1.0)
    for _ in range(steps):
        bowl.step()

    def held() -> list[Tensor]:
        moments = bowl.optimizer.optim.state.get(bowl.weight, {})
        return [bowl.weight.detach().clone(), *(moments[name].clone() for name in sorted(moments))]

    before, fresh = held(), bowl.optimizer.is_fresh
    with bowl.optimizer.trial():
        bowl.step()
        bowl.optimizer.step(math.nan * bowl.weight.sum())
        assert bowl.optimizer.skipped == 1
    after = held()
    assert len(before) == len(after)
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    assert (bowl.optimizer.is_fresh, bowl.optimizer.skipped) == (fresh, 0)
    assert fresh == (steps == 0)


def test_the_first_step_takes_a_share_between_all_and_one_of_its_update():
    assert step_target(0.16, 1) == 0.16
    assert step_target(0.16, 16) == pytest.approx(0.04)
