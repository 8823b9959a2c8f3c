"""Over from one process to another on the way to rest: no limit is broken, nothing is resumed."""

from __future__ import annotations

import numpy as np
import pytest
from small_limits import JOINTS, excess, limits

from robo_rl_sim2real.control.commands.braking import Array, Limits
from robo_rl_sim2real.control.commands.limiter import Limiter
from robo_rl_sim2real.core.clock import Clock
from robo_rl_sim2real.watchdog.braking_commands import braking_commands
from robo_rl_sim2real.watchdog.heartbeat import Heartbeat, Phase

HOLD_S = 0.2
SETTINGS = [(0.1, 20.0), (0.05, 3000.0), (0.02, 100.0), (0.002, 1000.0)]


class Fault:
    """A node that follows a wild policy until it dies, and what is commanded after that.

    Args:
        within: Of the joints.
        ticks: After so many of its periods.
        seen_s: How long after its last command that is noticed.
        unsent: Whether it died before that command was sent.
    """

    def __init__(self, within: Limits, ticks: int, seen_s: float, *, unsent: bool = False) -> None:
        self.now_s, self.within = 100.0, within
        rng, limiter = np.random.default_rng(ticks), Limiter(within, np.zeros(JOINTS))
        aim = rng.choice([-1.0, 1.4], JOINTS)
        self.sent = [(self.now_s, limiter.motion.pos)]
        for _ in range(ticks):
            self.now_s += within.dt_s
            self.sent.append((self.now_s, limiter.step(aim)))
        self.beat = Heartbeat(ticks, self.now_s, Phase.SENDING, limiter.motion)
        self.left, self.moving = len(self.sent), not limiter.at_rest
        if unsent:
            self.sent.pop()
        self.now_s += seen_s
        clock = Clock(lambda: self.now_s, self._sleep)
        for motion in braking_commands(self.beat, within, clock, HOLD_S):
            self.sent.append((self.now_s, motion.pos))

    def periods(self) -> Array:
        """What was the command in the middle of every period: (T, n)."""
        times = np.array([at for at, _ in self.sent])
        middles = np.arange(times[0], times[-1], self.within.dt_s) + 0.5 * self.within.dt_s
        return np.stack([self.sent[i][1] for i in np.searchsorted(times, middles) - 1])

    def _sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.mark.parametrize(("dt_s", "jerk"), SETTINGS)
@pytest.mark.parametrize("unsent", [False, True])
def test_what_is_noticed_within_a_period_breaks_no_limit_at_all(dt_s, jerk, unsent):
    """A period later than it might have been is not: the last command is there in its own."""
    moved = 0
    for ticks in range(1, 40, 3):
        fault = Fault(limits(dt_s, jerk), ticks, 0.3 * dt_s, unsent=unsent)
        moved += fault.moving
        assert excess(fault.periods(), fault.within) < 1e-6
        np.testing.assert_array_equal(fault.sent[-1][1], fault.sent[-2][1])
    assert moved > 8


@pytest.mark.parametrize(("dt_s", "jerk"), SETTINGS)
def test_what_is_noticed_later_is_held_where_it_stands(dt_s, jerk):
    """The robot has stopped at the last command by then, and nothing sets it going again."""
    for ticks in (5, 20):
        fault = Fault(limits(dt_s, jerk), ticks, 2.5 * dt_s)
        after = np.stack([pos for _, pos in fault.sent[fault.left :]])
        assert (after == fault.beat.motion.pos).all()


def test_a_robot_that_has_stopped_is_told_of_no_speed():
    """Who is told velocities would be set going again by the last one."""
    within, limiter = limits(), Limiter(limits(), np.zeros(JOINTS))
    for _ in range(20):
        limiter.step(np.full(JOINTS, 1.0))
    beat = Heartbeat(1, 100.0, Phase.SENDING, limiter.motion)
    for late, moves in ((0.5, True), (1.5, False)):
        clock = Clock(lambda late=late: 100.0 + late * within.dt_s, lambda s: None)
        first = next(iter(braking_commands(beat, within, clock, HOLD_S, by_velocity=True)))
        np.testing.assert_array_equal(first.pos, beat.motion.pos)
        assert bool(first.vel.any()) is moves


@pytest.mark.parametrize("late", [1.1, 1.2, 1.45])
def test_who_dies_in_its_next_period_is_braked_within_the_limits(late: float):
    """The command of that period is late, and not yet missed: the robot has not stopped."""
    moved = 0
    for ticks in range(1, 40, 3):
        fault = Fault(limits(), ticks, late * limits().dt_s)
        moved += fault.moving
        assert excess(fault.periods(), fault.within) < 1e-6
    assert moved > 8


def test_commands_come_on_the_grid_of_who_left_off():
    fault = Fault(limits(), 20, 0.003)
    times = np.array([at for at, _ in fault.sent[fault.left :]])
    assert times[0] == pytest.approx(fault.beat.time_s + 0.003)
    steps = (times[1:] - fault.beat.time_s) / fault.within.dt_s
    np.testing.assert_allclose(steps, np.arange(1, len(steps) + 1), atol=1e-6)


@pytest.mark.parametrize("ticks", [1, 20])
def test_a_robot_at_rest_is_told_to_stay_for_as_long_as_it_was_said(ticks):
    fault = Fault(limits(), ticks, 0.0)
    after = np.stack([pos for _, pos in fault.sent])
    still = (after == after[-1]).all(axis=1)
    held = int(still[::-1].cumprod().sum())
    assert HOLD_S < held * fault.within.dt_s < HOLD_S + 0.1
