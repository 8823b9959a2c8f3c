"""The adaptive rate follows its measure, under a ceiling that is lowered and slowly comes back."""

from __future__ import annotations

import pytest
import torch

from robo_rl.optim.adaptive_lr import AdaptiveLr
from robo_rl.optim.optimizer import ClippedOptimizer


def rate(lr: float) -> AdaptiveLr:
    optimizer = ClippedOptimizer([torch.nn.Parameter(torch.zeros(1))], lr, grad_clip=1.0)
    return AdaptiveLr(optimizer, low=1e-5, high=1e-3)


@pytest.mark.parametrize(("found", "lr"), [(0.21, 1e-4 / 1.5), (0.19, 1e-4), (0.04, 1.5e-4)])
def test_it_moves_towards_the_target_once_it_is_missed_by_a_factor_of_two(found, lr):
    moving = rate(1e-4)
    moving.adapt(found, target=0.1)
    assert moving.optimizer.lr == pytest.approx(lr)


def test_it_stays_within_its_bounds():
    moving = rate(1e-4)
    for found, bound in ((1.0, 1e-5), (0.0, 1e-3)):
        for _ in range(20):
            moving.adapt(found, target=0.1)
        assert moving.optimizer.lr == pytest.approx(bound)


@pytest.mark.parametrize(("excess", "factor"), [(2.1, 1 / 1.5), (9.0, 1 / 3), (1e6, 0.1)])
def test_it_falls_by_what_a_step_was_too_large(excess, factor):
    moving = rate(5e-4)
    assert moving.back_off(excess)
    assert moving.optimizer.lr == pytest.approx(5e-4 * factor)


def test_a_distance_that_is_linear_in_the_rate_takes_the_whole_excess():
    moving = rate(5e-4)
    assert moving.back_off(8.0, power=1.0)
    assert moving.optimizer.lr == pytest.approx(5e-4 / 8)


@pytest.mark.parametrize(
    ("excess", "factor"), [(4.0, 0.5), (0.25, 2.0), (0.0, 1.0), (-1e-7, 1.0), (float("nan"), 0.1)]
)
def test_a_probed_rate_is_the_one_that_would_meet_the_target(excess, factor):
    """A distance that rounding makes negative tells nothing."""
    probed = rate(2e-4)
    assert probed.rescale(excess) is (factor != 1.0)
    assert probed.optimizer.lr == pytest.approx(2e-4 * factor)


def test_it_cannot_fall_below_its_bound():
    moving = rate(1e-5)
    assert not moving.back_off(4.0)
    assert moving.optimizer.lr == 1e-5


def test_once_halved_it_climbs_back_slowly_and_no_higher_than_it_was():
    moving = rate(4e-4)
    moving.halve_below(4e-4)
    moving.adapt(0.0, target=0.1)
    assert moving.optimizer.lr == pytest.approx(2e-4)
    rates = []
    for _ in range(60):
        moving.recover(adaptive=True)
        moving.adapt(0.0, target=0.1)
        rates.append(moving.optimizer.lr)
    assert rates[:15] == pytest.approx([2e-4 * 1.05**n for n in range(1, 16)])
    assert rates[-1] == pytest.approx(1e-3)
    moving.halve_below(2e-4)
    assert moving.optimizer.lr == moving.ceiling == pytest.approx(1e-4)


def test_a_rate_that_was_held_at_one_value_is_halved_and_comes_back_to_it():
    optimizer = ClippedOptimizer([torch.nn.Parameter(torch.zeros(1))], 1e-4, grad_clip=1.0)
    held = AdaptiveLr(optimizer, low=1e-4, high=1e-4)
    for halvings in (1, 2, 3):
        held.halve_below(optimizer.lr)
        held.adapt(0.0, target=0.1)
        assert optimizer.lr == pytest.approx(1e-4 / 2**halvings)
    for _ in range(50):
        held.recover(adaptive=False)
    assert optimizer.lr == 1e-4


def test_a_rate_that_never_led_astray_is_left_alone():
    moving = rate(3e-4)
    moving.recover(adaptive=True)
    assert (moving.optimizer.lr, moving.ceiling) == (3e-4, 1e-3)


def test_a_rate_that_follows_nothing_comes_back_by_itself():
    alone = rate(2e-4)
    alone.halve_below(2e-4)
    for _ in range(15):
        alone.recover(adaptive=False)
    assert alone.optimizer.lr == pytest.approx(2e-4)
    alone.set(5e-5)
    alone.recover(adaptive=False)
    assert alone.optimizer.lr == pytest.approx(5e-5 * 1.05)
