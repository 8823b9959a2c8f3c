"""How late a robot is, of what it was told and where it was."""

from __future__ import annotations

import numpy as np
import pytest

from robo_rl_sim2real.twin.identification.delay import arrival_statistics, window_delays
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


def test_headers_tell_scatter_and_loss_whatever_their_clock_says():
    measured_s = np.arange(0.0, 60.0, 0.01)
    kept = RNG.random(len(measured_s)) >= 0.1
    measured_s = measured_s[kept]
    came_s = measured_s + 0.03 + 0.004 * RNG.random(len(measured_s))
    headers_s = 1000.0 + measured_s * (1.0 + 2e-5)  # a clock that drifts, as crystals do
    found = arrival_statistics([course(received_s=came_s, measured_s=headers_s)])
    assert found.jitter_s == pytest.approx(0.004, rel=0.1)
    assert found.loss == pytest.approx(0.1, abs=0.015)  # a standard error of 0.004


def test_a_pause_of_the_readings_takes_nothing_away():
    measured_s = np.arange(0.0, 60.0, 0.01)
    measured_s = measured_s[(measured_s < 20.0) | (measured_s > 32.0)]
    came_s = measured_s + 0.03 + 0.004 * RNG.random(len(measured_s))
    found = arrival_statistics([course(received_s=came_s, measured_s=measured_s)])
    assert found.jitter_s == pytest.approx(0.004, rel=0.1)


def test_without_headers_nothing_is_said_of_arrivals():
    for header_s in (np.full_like(course().received_s, np.nan), np.zeros_like(course().received_s)):
        assert all(np.isnan(arrival_statistics([course(measured_s=header_s)])))
