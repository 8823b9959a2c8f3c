"""A prefix is refreshed beside the control loop, says its age, and is not acted on when too old."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from robo_rl_sim2real.control.prefix import PrefixConfig, PrefixedPolicy, StalePrefixError

CONFIG = PrefixConfig(period_s=0.5, max_age_s=1.5)


class Graphs:
    """Two graphs: the prefix says which image it saw, once it is let go on."""

    def __init__(self) -> None:
        self.contract = SimpleNamespace(chunk_shape=(2, 1))
        self.may, self.seen = threading.Semaphore(0), list[float]()
        self.error: Exception | None = None

    def encode(self, obs: Any) -> dict[str, Any]:
        self.may.acquire()
        if self.error is not None:
            raise self.error
        self.seen.append(float(obs["image"][0]))
        return {"prefix_0": obs["image"]}

    def act_on(self, prefix: Any, obs: Any, noise: Any) -> Any:
        assert noise.shape == (1, 2, 1)
        return np.array([prefix["prefix_0"][0], obs["pos"][0]])


@pytest.fixture
def made():
    graphs, clock = Graphs(), SimpleNamespace(now_s=0.0)
    policy = PrefixedPolicy(
        graphs,  # pyright: ignore[reportArgumentType]
        CONFIG,
        np.random.default_rng(0),
        lambda: clock.now_s,
    )
    yield policy, graphs, clock
    graphs.may.release(100)
    policy.close()


def obs(number: float) -> Any:
    return {"image": np.array([number]), "pos": np.array([10 * number])}


def wait(condition: Any) -> None:
    until = time.monotonic() + 10.0
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.001)


def first(policy: PrefixedPolicy, graphs: Graphs) -> None:
    """Let the first refresh end."""
    with pytest.raises(StalePrefixError, match="none so far"):
        policy(obs(1), None)
    graphs.may.release()
    wait(lambda: np.isfinite(policy.age_s))


def test_before_the_first_prefix_the_policy_does_not_act(made: Any):
    policy, graphs, _ = made
    assert policy.age_s == np.inf
    first(policy, graphs)
    assert policy(obs(2), None).tolist() == [1.0, 20.0]  # the image of before, the latest position


def test_it_is_refreshed_at_its_period_and_no_query_waits_for_it(made: Any):
    policy, graphs, clock = made
    first(policy, graphs)
    clock.now_s = 0.4
    policy(obs(2), None)
    assert policy.age_s == pytest.approx(0.4)
    clock.now_s = 0.6
    assert policy(obs(3), None).tolist() == [1.0, 30.0]  # the refresh has begun
    clock.now_s = 0.7
    assert policy(obs(4), None).tolist() == [1.0, 40.0]  # and is still under way
    graphs.may.release()
    wait(lambda: policy.age_s < 0.5)
    assert policy.age_s == pytest.approx(0.1)  # since the observation, not since the end
    assert policy(obs(5), None).tolist() == [3.0, 50.0]
    assert graphs.seen == [1.0, 3.0]


def test_one_that_is_too_old_is_named_with_its_age_and_goes_on_after_a_refresh(made: Any):
    policy, graphs, clock = made
    first(policy, graphs)
    clock.now_s = 1.6
    with pytest.raises(StalePrefixError, match=r"prefix\.max_age_s.*at most 1\.5 s.*1\.60 s"):
        policy(obs(2), None)
    graphs.may.release()
    wait(lambda: policy.age_s < 1.0)
    assert policy(obs(3), None).tolist() == [2.0, 30.0]


def test_an_error_of_a_refresh_reaches_the_control_loop_once(made: Any):
    policy, graphs, clock = made
    first(policy, graphs)
    clock.now_s, graphs.error = 0.6, RuntimeError("no such camera")
    policy(obs(2), None)
    graphs.may.release()
    wait(lambda: policy._error is not None)
    graphs.error = None
    with pytest.raises(RuntimeError, match="no such camera"):
        policy(obs(3), None)
    assert policy(obs(3), None).tolist() == [1.0, 30.0]


def test_a_largest_age_below_the_period_is_refused():
    with pytest.raises(ValidationError, match="not above period_s"):
        PrefixConfig(period_s=1.0, max_age_s=1.0)
