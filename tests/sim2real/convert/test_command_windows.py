"""Commands of foreign bags in control periods: each once and in order, whatever the jitter."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from robo_rl_sim2real.convert.command_windows import CommandWindow, command_windows

DT_S, MAX_AGE_S = 0.05, 0.1


def windows(came_s: np.ndarray) -> list[CommandWindow]:
    return list(command_windows(came_s, DT_S, MAX_AGE_S))


def sent(number: int, interval_s: float = DT_S, sigma_s: float = 0.0, seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal(number)
    return 1.0 + interval_s * np.arange(number) + sigma_s * noise


def newest(found: list[CommandWindow]) -> list[int]:
    return [window.newest for window in found]


@pytest.mark.parametrize("interval_s", [DT_S, 0.99 * DT_S, 1.01 * DT_S])
@pytest.mark.parametrize("sigma_s", [0.0, 2e-4, 1e-3, 3e-3])
def test_jitter_neither_repeats_nor_loses_a_command(sigma_s: float, interval_s: float):
    for seed in range(20):
        came_s = sent(400, interval_s, sigma_s, seed)
        found = windows(came_s)
        assert newest(found) == list(range(400))
        assert [window.number for window in found] == list(range(400))
        assert [window.at_s for window in found] == came_s.tolist()
        assert all(window.is_fresh for window in found)


def test_a_command_that_fails_to_come_is_held_for_its_period():
    came_s = np.delete(sent(100, sigma_s=1e-3), 50)
    found = windows(came_s)
    assert newest(found) == [*range(50), 49, *range(50, 99)]
    assert found[50].at_s == pytest.approx(1.0 + 50 * DT_S, abs=5e-3)
    assert [window.number for window in found] == list(range(100))


@pytest.mark.parametrize("pause_s", [0.3, 0.512, 1.0375, 1e6])
def test_after_a_pause_the_periods_begin_again_with_the_commands(pause_s: float):
    came_s = sent(200, sigma_s=3e-3)
    came_s[100:] += pause_s
    found = windows(came_s)
    again = newest(found).index(100)
    assert newest(found)[:100] == list(range(100))
    assert newest(found)[again:] == list(range(100, 200))
    assert newest(found)[100:again] == [99] * (again - 100)
    held = found[100:again]
    assert all(window.at_s - came_s[99] <= MAX_AGE_S + 1e-9 for window in held if window.is_fresh)
    assert [window.is_fresh for window in held] == [True] * (again - 101) + [False]
    assert found[again].number > found[again - 1].number + 1


@pytest.mark.parametrize("per_period", [2, 5, 10])
def test_of_faster_commands_every_period_has_as_many_and_begins_with_its_first(per_period: int):
    came_s = sent(40 * per_period, DT_S / per_period, 1e-4 * DT_S / per_period)
    found = windows(came_s)
    assert newest(found) == list(range(per_period - 1, 40 * per_period, per_period))
    assert [window.at_s for window in found] == came_s[::per_period].tolist()


def test_slower_commands_are_held_until_the_next():
    came_s = sent(50, 2 * DT_S, 3e-3)
    found = windows(came_s)
    assert newest(found) == [i // 2 for i in range(99)]
    assert [window.at_s for window in found[::2]] == came_s.tolist()


@pytest.mark.parametrize("interval_s", [0.012, 0.0333, 0.0375, 0.055, 0.075, 0.15])
def test_at_another_rate_periods_keep_to_theirs_and_none_sees_the_future(interval_s: float):
    came_s = sent(300, interval_s, 1e-4)
    found = windows(came_s)
    assert len(found) == pytest.approx((came_s[-1] - came_s[0]) / DT_S, rel=0.05)
    assert newest(found) == sorted(newest(found))
    for before, window in pairwise(found):
        first = before.newest + 1
        if window.newest > before.newest:  # what was observed is older than all its commands
            assert window.at_s == came_s[first]
        assert window.at_s > before.at_s
    if interval_s > DT_S:
        assert set(newest(found)) == set(range(300))


def test_one_command_is_one_period():
    assert windows(np.array([3.0])) == [CommandWindow(0, 3.0, 0, True)]
