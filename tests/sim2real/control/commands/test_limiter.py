"""No command breaks a limit, whatever is asked for; and what can be followed is."""

from __future__ import annotations

import numpy as np
import pytest
from small_limits import JOINTS, excess, limits

from robo_rl.core.errors import ConfigError
from robo_rl_sim2real.control.commands.limiter import Limiter, check_computable

LANES = 100


def adversary(kind: int, tick: int, pos: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Targets that no one should send."""
    return (
        rng.uniform(-3.0, 3.0, pos.shape),
        np.full(pos.shape, (-1.0) ** tick * 5.0),
        pos + rng.normal(0.0, 0.05, pos.shape),
        np.full(pos.shape, 1e300 if tick % 7 else -1e300),
    )[kind]


@pytest.mark.parametrize(
    ("dt_s", "jerk"), [(0.02, 20.0), (0.02, 100.0), (0.05, 3000.0), (0.005, 400.0)]
)
def test_no_command_breaks_a_limit(dt_s, jerk):
    rng, within = np.random.default_rng(0), limits(dt_s, jerk)
    start = rng.uniform(within.low, within.high, (LANES, JOINTS))
    limiter, commands = Limiter(within, start), [start]
    for tick in range(160):
        target = adversary(tick // 20 % 4, tick, commands[-1], rng)
        commands.append(limiter.step(target) if tick % 50 < 45 else limiter.brake())
    assert excess(np.stack(commands), within) < 1e-6
    assert np.ptp(np.stack(commands), axis=0).min() > 0.01  # and they do move


def test_what_moves_within_the_limits_is_met_exactly():
    within = limits(0.02, 500.0)
    limiter, phase = Limiter(within, np.zeros(JOINTS)), np.arange(300) * 0.02
    path = 0.2 * (1.0 - np.cos(phase))[:, None] * np.ones(JOINTS)
    commands = np.stack([limiter.step(target) for target in path])
    np.testing.assert_allclose(commands, path, atol=1e-12)


def test_a_target_that_sets_off_too_fast_is_caught_up_with():
    """Its speed is within the limits; only its first step is a jump."""
    within = limits(0.05, 3000.0)
    speed = 0.8 * within.velocity
    assert (speed > within.acceleration * within.dt_s).all()
    path = np.arange(1, 23)[:, None] * speed * within.dt_s - 1.0
    limiter = Limiter(within, path[0] - speed * within.dt_s)
    behind = path - np.stack([limiter.step(target) for target in path])
    assert (behind[0] > 0.01).all()
    assert np.abs(behind[-1]).max() < 1e-3
    assert behind.min() > -0.1 * (speed * within.dt_s).max()


@pytest.mark.parametrize(
    ("dt_s", "jerk"), [(0.02, 100.0), (0.05, 300.0), (0.05, 3000.0), (0.1, 3000.0)]
)
def test_a_jump_is_reached_soon_and_hardly_passed(dt_s, jerk):
    within = limits(dt_s, jerk)
    limiter = Limiter(within, np.zeros(JOINTS))
    path = np.stack([limiter.step(np.ones(JOINTS)) for _ in range(200)])
    fastest = 1.0 / within.velocity + within.velocity / within.acceleration
    fastest += within.acceleration / within.jerk
    arrived = (np.abs(path - 1.0) < 0.01).argmax(axis=0)
    assert (arrived * dt_s < 1.15 * fastest + 0.1 + dt_s).all()
    assert path.max() < 1.01
    speeds = np.diff(path, axis=0, prepend=0.0)
    for joint in range(JOINTS):  # it speeds up, then it slows down, and that is all
        on = speeds[: arrived[joint] + 1, joint]
        turn = on.argmax()
        assert np.diff(on[: turn + 1]).min(initial=0.0) > -1e-6
        assert np.diff(on[turn:]).max(initial=0.0) < 1e-6
    np.testing.assert_allclose(path[-1], 1.0, atol=1e-6)


def test_a_joint_out_of_range_may_come_in_and_not_go_on():
    within = limits()
    outside = np.full(JOINTS, within.high[0] + 0.2)
    limiter = Limiter(within, outside)
    path = np.stack([limiter.step(np.full(JOINTS, 9.0)) for _ in range(100)])
    assert path.max() <= outside[0]
    np.testing.assert_allclose(path[-1], within.high, atol=1e-6)


def test_it_stays_where_it_is_until_it_is_asked_to_move():
    limiter = Limiter(limits(), np.full(JOINTS, 0.3))
    assert (limiter.brake() == 0.3).all()
    assert (limiter.step(np.full(JOINTS, 0.3)) == 0.3).all()


def test_limits_that_take_too_long_to_keep_are_refused():
    check_computable(limits(0.5, 1000.0))
    with pytest.raises(ConfigError, match="a command takes too long to find"):
        check_computable(limits(1e-4, 100.0))
