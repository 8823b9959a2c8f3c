"""What the headers of readings tell of their arrivals, and what an env makes of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from robo_rl.env.message_delay import MessageDelay
from robo_rl_sim2real.simulated.network_delay import NetworkDelay
from robo_rl_sim2real.twin.identification.arrivals import ArrivalStatistics, arrival_statistics
from robo_rl_sim2real.twin.identification.delay import WindowDelay
from robo_rl_sim2real.twin.identification.latency import LatencyEstimate
from robo_rl_sim2real.twin.identification.trajectories import TrajectorySegment

RNG = np.random.default_rng(7)
LATENCY_S, SECONDS = 0.02, 400.0


def course(received_s: np.ndarray, measured_s: np.ndarray) -> TrajectorySegment:
    at_s, pos = np.zeros(1), np.zeros((1, 1))
    return TrajectorySegment(("a",), at_s, pos, received_s, measured_s, pos)


def test_headers_tell_scatter_and_loss_whatever_their_clock_says():
    measured_s = np.arange(0.0, 60.0, 0.01)
    kept = RNG.random(len(measured_s)) >= 0.1
    measured_s = measured_s[kept]
    came_s = measured_s + 0.03 + 0.004 * RNG.random(len(measured_s))
    headers_s = 1000.0 + measured_s * (1.0 + 2e-5)  # a clock that drifts, as crystals do
    found = arrival_statistics([course(came_s, headers_s)])
    assert found.jitter_s == pytest.approx(0.004, rel=0.1)
    assert found.loss == pytest.approx(0.1, abs=0.015)  # a standard error of 0.004


def test_a_pause_of_the_readings_takes_nothing_away():
    measured_s = np.arange(0.0, 60.0, 0.01)
    measured_s = measured_s[(measured_s < 20.0) | (measured_s > 32.0)]
    came_s = measured_s + 0.03 + 0.004 * RNG.random(len(measured_s))
    found = arrival_statistics([course(came_s, measured_s)])
    assert found.jitter_s == pytest.approx(0.004, rel=0.1)


def test_without_headers_nothing_is_said_of_arrivals():
    came_s = np.arange(0.0, 11.0, 0.008)
    for header_s in (np.full_like(came_s, np.nan), np.zeros_like(came_s)):
        found = arrival_statistics([course(came_s, header_s)])
        assert np.isnan([*found, found.loss_per_period(0.05)]).all()


@pytest.mark.parametrize(
    ("readings", "loss"), [(1.0, 0.1), (2.0, 0.01), (1.5, 0.055), (0.5, 0.1), (10.0, 1e-10)]
)
def test_a_period_is_lost_if_all_its_readings_are(readings: float, loss: float):
    # 1.5 readings a period: half of the periods hold one, half two
    found = ArrivalStatistics(0.0, 0.1, 0.05 / readings).loss_per_period(0.05)
    assert found == pytest.approx(loss, rel=1e-6)


def stream(loss: float, interval_s: float, dt_s: float) -> tuple[TrajectorySegment, np.ndarray]:
    """A recording of readings that arrive at control ticks, and the age of the newest one there."""
    network = NetworkDelay[float](NetworkDelay.Config(latency_s=LATENCY_S, loss=loss), RNG)
    for at_s in np.arange(0.0, SECONDS, interval_s) - LATENCY_S:
        network.put(float(at_s), float(at_s))
    ticks_s, newest_s, ages_s = np.arange(0.0, SECONDS, dt_s), -np.inf, list[float]()
    measured_s = list[float]()
    for tick_s in ticks_s:
        came = network.due(float(tick_s))
        measured_s += came
        newest_s = max([newest_s, *came])
        ages_s.append(float(tick_s) - newest_s)
    sent_s = np.array(measured_s)
    return course(sent_s + LATENCY_S, sent_s), np.array(ages_s[len(ages_s) // 100 :])


def trained(setting: dict[str, object], dt_s: float) -> np.ndarray:
    """Ages in 200 envs, each of 200 steps, of training with a setting."""
    cfg = MessageDelay.Config.model_validate(setting)
    delay = MessageDelay(cfg, 200, dt_s, torch.device("cpu"), "test")
    delay.restart(torch.arange(200))
    return dt_s * torch.stack([delay.advance() for _ in range(200)])[20:].numpy()


@pytest.mark.parametrize(
    ("loss", "interval_s", "worst_s"), [(0.1, 0.005, 0.012), (0.2, 0.025, 0.03), (0.15, 0.05, 1e-3)]
)
def test_training_sees_ages_as_a_robot_does(loss: float, interval_s: float, worst_s: float):
    recorded, ages_s = stream(loss, interval_s, dt_s=0.05)
    shifts = [WindowDelay(0.0, LATENCY_S, 1.0, 0.0, True)]
    found = LatencyEstimate(shifts, 0, 0, arrival_statistics([recorded]), 0.05)
    assert found.arrivals.loss == pytest.approx(loss, abs=0.02)
    seen_s = trained(found.config()["env"]["obs_delay"], 0.05)
    # the env has no losses inside a period, which add at most loss / (1 − loss) intervals
    inside_s = loss / (1.0 - loss) * interval_s if interval_s < 0.05 else 0.0
    assert -0.0015 < ages_s.mean() - seen_s.mean() < inside_s + 0.0015
    assert abs(np.quantile(ages_s, 0.99) - np.quantile(seen_s, 0.99)) < worst_s
