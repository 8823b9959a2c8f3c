"""Messages on their way."""

from __future__ import annotations

import numpy as np
import pytest

from robo_rl_sim2real.simulated.network_delay import NetworkDelay


def lag(**fields: float) -> NetworkDelay[int]:
    return NetworkDelay(NetworkDelay.Config(**fields), np.random.default_rng(0))


def test_without_lag_all_come_at_once_and_in_order():
    way = lag()
    for i in range(5):
        way.put(i, 1.0)
    assert way.due(1.0) == [0, 1, 2, 3, 4]
    assert way.due(9.0) == []


def test_each_takes_as_long_as_it_should():
    way, arrived = lag(latency_s=0.1, jitter_s=0.05), dict[int, float]()
    for i in range(200):
        way.put(i, 0.001 * i)
    for tick in range(1000):
        arrived |= dict.fromkeys(way.due(0.001 * tick), 0.001 * tick)
    took = np.array([arrived[i] - 0.001 * i for i in range(200)])
    assert took.min() >= 0.1 - 1e-9
    assert took.max() <= 0.151
    assert took.mean() == pytest.approx(0.125, abs=0.005)
    assert list(arrived) != sorted(arrived)  # they overtake each other


def test_a_share_is_lost():
    way = lag(loss=0.3)
    for i in range(10_000):
        way.put(i, 0.0)
    # 3.3 standard deviations of a binomial share
    assert len(way.due(0.0)) / 10_000 == pytest.approx(0.7, abs=3.3 * np.sqrt(0.21 / 10_000))
