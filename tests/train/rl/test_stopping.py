"""Training ends when enough of the latest episodes succeed, whichever of them ended last."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import pytest
import torch

from robo_rl.train.evaluation.evaluate import EvalResult
from robo_rl.train.rl.episode_cohorts import EpisodeOutcomes
from robo_rl.train.rl.loop_config import LoopConfig
from robo_rl.train.rl.stopping import StoppingRule


def ending(**fields: object) -> StoppingRule:
    given = {"updates": 100, "stop_episodes": 200, "stop_confirm": 0, **fields}
    return StoppingRule(LoopConfig(**given))  # pyright: ignore


def outcomes(good: int, of: int) -> EpisodeOutcomes:
    """As they end: those that succeed first."""
    success = torch.arange(of) < good
    return EpisodeOutcomes(success, success.double())


@pytest.mark.parametrize(
    "fields", [{"stop_success": 0.9}, {"stop_return": 0.9}], ids=["success", "return"]
)
@pytest.mark.parametrize("of", [50, 200, 450])
def test_the_share_is_that_of_all_episodes_and_not_of_those_that_ended_last(
    fields: dict[str, float], of: int
):
    short, enough = ending(**fields), ending(**fields)
    for _ in range(1 + 200 // of):
        short.update(outcomes(int(0.88 * of), of), 0)
        enough.update(outcomes(round(0.92 * of), of), 0)
    assert not short.enough
    assert enough.enough


def test_it_is_not_over_before_there_are_enough_episodes_of_which_some_come_in_no_update():
    watching = ending(stop_success=0.9)
    for of in (90, 0, 90, 0):
        watching.update(outcomes(of, of), 0)
        assert not watching.enough
    watching.update(outcomes(90, 90), 0)
    assert watching.enough


def test_what_was_long_ago_is_forgotten():
    watching = ending(stop_success=0.9)
    for _ in range(5):
        watching.update(outcomes(0, 100), 0)
    for _ in range(2):
        assert not watching.enough
        watching.update(outcomes(95, 100), 0)
    assert watching.enough


def test_one_that_is_put_back_decides_as_it_would_have():
    whole, again = ending(stop_success=0.9), ending(stop_success=0.9)
    whole.update(outcomes(150, 150), 0)
    again.load_state_dict(deepcopy(whole.state_dict()))
    for each in (whole, again):
        each.update(outcomes(40, 50), 0)
    assert whole.enough == again.enough
    assert whole.enough


def evaluated(success: float) -> Callable[[], EvalResult]:
    """An evaluation of 100 episodes; the mean return is 0."""
    good = torch.arange(100) < round(100 * success)
    zero = torch.zeros(100)
    return lambda: EvalResult(good, zero, zero.long(), "")


def test_episodes_without_exploration_confirm_the_end():
    watching = ending(stop_success=0.9, stop_confirm=100)
    watching.update(outcomes(200, 200), 0)
    assert not watching.enough
    assert watching.confirm(evaluated(0.91))["stop/success"] == 0.91
    assert watching.enough


def test_a_policy_that_succeeds_by_its_noise_alone_trains_on_and_is_asked_again_later():
    watching, asked = ending(stop_success=0.9, stop_confirm=100), list[int]()
    for update in range(35):
        watching.update(outcomes(200, 200), 0)
        asked += [update] if watching.confirm(evaluated(0.89)) else []
        assert not watching.enough
    assert asked == [0, 10, 20, 30]
    watching.update(outcomes(100, 200), 0)
    assert watching.confirm(evaluated(1.0)) == {}  # training episodes do not succeed


def test_a_lost_world_counts_with_the_lowest_return_of_the_others():
    zero, row = torch.zeros(100), torch.arange(100)
    cases = (
        (torch.where(row < 40, 9.0, 0.5), row < 40, False),  # high by lost worlds alone
        (torch.where(row < 1, -50.0, 1.0), row < 1, True),
        (zero + 9.0, row < 100, False),
        (zero + 9.0, None, True),
    )
    for returns, lost, ended in cases:
        found = EvalResult(zero > 0, returns, zero.long(), "", lost=lost)
        watching = ending(stop_return=0.9, stop_confirm=100)
        watching.update(outcomes(200, 200), 0)
        watching.confirm(lambda found=found: found)
        assert watching.enough == ended


def test_a_spent_budget_needs_no_confirmation():
    watching = ending(stop_success=0.9, stop_confirm=100, env_steps=10)
    watching.update(outcomes(200, 200), 10)
    assert watching.enough
    assert watching.confirm(evaluated(0.0)) == {}
    assert watching.enough


@pytest.mark.parametrize("env_steps", [999, 1000])
def test_a_budget_of_env_steps_ends_it_whatever_succeeds(env_steps: int):
    watching = ending(env_steps=1000)
    watching.update(outcomes(0, 10), env_steps)
    assert watching.enough == (env_steps >= 1000)
    assert watching.budget_fraction(1, env_steps) == pytest.approx(min(env_steps / 1000, 1.0))


@pytest.mark.parametrize(
    ("env_steps", "updates", "taken", "expected"),
    [
        (None, 7, 7_000, 100),
        (20_000, 7, 7_000, 20),
        (20_000, 7, 70, 100),  # updates end first
        (20_000, 20, 20_000, 20),
        (20_000, 29, 29 * 690, 29),  # 28 are not enough
        (20_000, 1, 690, 29),
        (20_000, 0, 0, 100),
    ],
)
def test_updates_to_come_are_those_that_the_budget_is_good_for(
    env_steps: int | None, updates: int, taken: int, expected: int
):
    assert ending(env_steps=env_steps).expected_updates(updates, taken) == expected
