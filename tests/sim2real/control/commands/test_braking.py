"""Coming to rest: exactly, in time, and told beforehand."""

from __future__ import annotations

import numpy as np
import pytest
from small_limits import JOINTS, limits

from robo_rl.core.errors import ConfigError
from robo_rl_sim2real.control.commands.braking import Limits, Motion, brake, braking_acc

SETTINGS = [(0.02, 20.0), (0.02, 100.0), (0.05, 3000.0), (0.005, 400.0)]


def moving(within: Limits, lanes: int) -> Motion:
    """Motions within the limits of velocity and acceleration."""
    share = np.random.default_rng(0).uniform(-1.0, 1.0, (2, lanes, JOINTS))
    return Motion(
        np.zeros((lanes, JOINTS)), share[0] * within.velocity, share[1] * within.acceleration
    )


@pytest.mark.parametrize(("dt_s", "jerk"), SETTINGS)
def test_a_brake_ends_at_rest_by_admissible_steps_where_it_was_said_to(dt_s, jerk):
    within = limits(dt_s, jerk)
    motion = moving(within, 400)
    told = brake(motion, within, -9.0, 9.0)
    for _ in range(within.ticks):
        acc = braking_acc(motion.vel, motion.acc, within)
        assert (np.abs(acc - motion.acc) <= within.step * (1 + 1e-9)).all()
        assert (np.abs(acc) <= within.acceleration * (1 + 1e-9)).all()
        motion = motion.step(acc, dt_s)
    assert np.abs(motion.vel).max() < 1e-8
    assert np.abs(motion.acc).max() * dt_s < 1e-8
    np.testing.assert_allclose(motion.pos, told.stop, atol=1e-7)


def test_without_jerk_to_speak_of_it_is_the_known_distance():
    """v²/2a of constant braking, less half of v·dt, for time is in ticks."""
    within = limits(0.001, 1e9)
    vel = 0.9 * within.velocity
    start = Motion(np.zeros(JOINTS), vel, np.zeros(JOINTS))
    stop = brake(start, within, -9.0, 9.0).stop
    np.testing.assert_allclose(stop, vel**2 / (2 * within.acceleration) - vel * 0.0005, rtol=0.01)


def test_it_is_safe_if_the_way_stays_within_all_limits():
    within = limits()
    still = np.zeros(JOINTS)
    slow = Motion(still, 0.5 * within.velocity, still)
    stop = brake(slow, within, within.low, within.high).stop
    for room, safe in ((1e-9, True), (-1e-9, False)):
        assert (brake(slow, within, within.low, stop + room).safe == safe).all()
    too_fast = Motion(still, 1.01 * within.velocity, still)
    assert not brake(too_fast, within, within.low, within.high).safe.any()
    rising = Motion(still, within.velocity * 0.999, within.acceleration)
    one_tick = within.acceleration <= within.step  # is enough to stop rising
    assert (brake(rising, within, within.low, within.high).safe == one_tick).all()


@pytest.mark.parametrize(
    "change",
    [
        {"velocity": np.zeros(JOINTS)},
        {"jerk": np.full(JOINTS, np.inf)},
        {"acceleration": np.full(JOINTS, np.nan)},
        {"low": np.full(JOINTS, 2.0)},
        {"high": np.full(JOINTS, np.inf)},
    ],
)
def test_limits_that_do_not_limit_are_refused(change):
    with pytest.raises(ConfigError, match="expected finite"):
        Limits(**{**vars(limits()), **change})
