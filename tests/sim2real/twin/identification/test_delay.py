"""How late a robot is, of what it was told and where it was."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from robo_rl_sim2real.twin.identification.delay import window_delays
from robo_rl_sim2real.twin.identification.simulated_response import SimulatedResponse
from robo_rl_sim2real.twin.identification.trajectories import TrajectorySegment

RNG = np.random.default_rng(7)
AT_S = np.arange(0.0, 12.0, 0.01)


def motion(at_s: np.ndarray) -> np.ndarray:
    """Two joints, smoothly, (T, 2)."""
    return np.stack([0.3 * np.sin(2.1 * at_s), 0.2 * np.sin(3.7 * at_s + 1.0)], axis=1)


def course(late_s: float = 0.0, **fields: np.ndarray) -> TrajectorySegment:
    came_s = np.arange(0.0, 11.0, 0.008)
    made = TrajectorySegment(
        ("a", "b"), AT_S, motion(AT_S), came_s, came_s, motion(came_s - late_s)
    )
    return made._replace(**fields)


@pytest.mark.parametrize("late_s", [0.0, 0.0123, 0.06, 0.2491])
def test_a_shift_is_found_to_a_fraction_of_the_grid(late_s: float):
    found = window_delays(course(late_s), SimulatedResponse(AT_S, motion(AT_S)), 2.0, 0.4)
    assert len(found) == 5
    np.testing.assert_allclose([shift.delay_s for shift in found], late_s, atol=2e-4)
    assert min(shift.explained_variance for shift in found) > 0.9999


def test_noise_and_what_a_calibration_is_off_by_do_not_move_it():
    seen = course(0.06)
    pos = seen.pos + np.array([0.05, -0.1]) + 0.002 * RNG.standard_normal(seen.pos.shape)
    found = window_delays(seen._replace(pos=pos), SimulatedResponse(AT_S, motion(AT_S)), 2.0, 0.4)
    # 250 readings of speed 0.5 rad/s or so and 2 mrad of noise: a standard error below 0.4 ms
    np.testing.assert_allclose([shift.delay_s for shift in found], 0.06, atol=2e-3)


def test_another_motion_is_not_explained_and_none_is_left_out():
    model = SimulatedResponse(AT_S, motion(AT_S))
    other = course(pos=motion(0.37 * course().received_s + 20.0))
    assert (
        np.median([shift.explained_variance for shift in window_delays(other, model, 2.0, 0.4)])
        < 0.5
    )
    assert not window_delays(course(pos=np.full_like(course().pos, 0.3)), model, 2.0, 0.4)


def told(positions: Callable[[np.ndarray], np.ndarray], late_s: float) -> np.ndarray:
    """Delays of the windows that tell one, of a motion with 0.5 mrad of encoder noise."""
    came_s = np.arange(0.0, 31.0, 0.01)
    pos = positions(came_s - late_s)[:, None]
    noise = 0.0005 * np.random.default_rng(3).standard_normal(pos.shape)
    at_s = np.arange(0.0, 32.0, 0.01)
    model = SimulatedResponse(at_s, positions(at_s)[:, None])
    seen = TrajectorySegment(("a",), at_s, model.pos, came_s, came_s, pos + noise)
    found = window_delays(seen, model, 2.0, 0.4)
    assert found
    return np.array([each.delay_s for each in found if each.is_precise and each.is_unique])


def triangles(at_s: np.ndarray) -> np.ndarray:
    """Speed 0.1 rad/s, which turns every 4 s."""
    return 0.4 * np.abs(2.0 * ((at_s / 8.0) % 1.0) - 1.0)


def test_a_constant_speed_tells_no_delay_and_its_turns_do():
    assert len(told(lambda at_s: 0.1 * at_s, 0.06)) == 0
    delays_s = told(triangles, 0.06)  # 15 windows, 7 turns
    assert 5 <= len(delays_s) <= 8
    # a turn changes the speed by 0.2 rad/s: a standard error of 0.5 mrad / (0.1 √100 rad/s)
    np.testing.assert_allclose(delays_s, 0.06, atol=2e-3)


@pytest.mark.parametrize("phase_s", [3.975, 5.575, 7.575])
def test_a_turn_at_the_edge_of_a_window_is_no_delay(phase_s: float):
    # a shift at which the turn just enters the window can fit the noise of a constant speed
    delays_s = told(lambda at_s: triangles(at_s + phase_s), 0.06)
    np.testing.assert_allclose(delays_s, 0.06, atol=3e-3)


def test_a_slow_acceleration_is_imprecise():
    model = SimulatedResponse(AT_S, 0.1 * np.sin(0.5 * AT_S)[:, None])
    pos = np.interp(course().received_s - 0.06, AT_S, model.pos[:, 0])[:, None]
    noise = RNG.standard_normal(pos.shape)
    for noise_rad, precise in ((2e-4, True), (5e-3, False)):
        found = window_delays(course(pos=pos + noise_rad * noise), model, 2.0, 0.4)
        assert {each.is_precise for each in found} == {precise}


@pytest.mark.parametrize(("late_s", "count"), [(0.0625, 0), (0.3, 0), (0.175, 15)])
def test_a_periodic_motion_tells_only_a_delay_without_alias(late_s: float, count: int):
    delays_s = told(lambda at_s: 0.1 * np.sin(8.0 * np.pi * at_s), late_s)  # a period of 0.25 s
    assert len(delays_s) == count
    np.testing.assert_allclose(delays_s, late_s, atol=1e-3)


def test_the_ends_of_the_search_are_no_delays():
    for late_s in (0.45, -0.1):
        assert len(told(lambda at_s: 0.3 * np.sin(2.1 * at_s), late_s)) == 0


def test_the_standard_error_is_that_of_repeated_recordings():
    seen, model = course(0.06), SimulatedResponse(AT_S, motion(AT_S))
    noisy = [seen.pos + 0.002 * RNG.standard_normal(seen.pos.shape) for _ in range(30)]
    found = [window_delays(seen._replace(pos=pos), model, 2.0, 0.4) for pos in noisy]
    delays_s = np.array([[each.delay_s for each in windows] for windows in found])
    said_s = np.array([[each.standard_error_s for each in windows] for windows in found])
    # 30 repetitions of 5 windows: the deviation is known to 6 %
    assert np.sqrt(delays_s.var(0, ddof=1).mean()) == pytest.approx(said_s.mean(), rel=0.2)
