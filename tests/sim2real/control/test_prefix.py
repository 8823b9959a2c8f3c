"""A prefix is refreshed beside the control loop, at its rate, for the present activation alone."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from robo_rl_sim2real.control.prefix import Prefix, PrefixConfig, PrefixRefresher


class Graph:
    """A prefix that says which image it saw, once it is let go on."""

    def __init__(self) -> None:
        self.may, self.seen = threading.Semaphore(0), list[int]()
        self.error: Exception | None = None

    def encode(self, obs: Any) -> Any:
        self.may.acquire()
        if self.error is not None:
            raise self.error
        self.seen.append(obs["image"])
        return {"prefix_0": obs["image"]}


@pytest.fixture
def made():
    graph, clock = Graph(), SimpleNamespace(now_s=0.0)
    refresher = PrefixRefresher(graph.encode, PrefixConfig(period_s=0.5), lambda: clock.now_s)
    yield refresher, graph, clock
    graph.may.release(100)
    refresher.close()


def update(made: Any, image: int, epoch: int = 1, instruction: str = "") -> int | None:
    """Offer an image that has just arrived; return the one that the prefix saw."""
    refresher, _, clock = made
    seen = Prefix({"image": np.asarray(image)}, clock.now_s, epoch, instruction)
    found = refresher.update(seen)
    assert found is None or found.instruction in ("", f"see {found.tensors['prefix_0']}")
    return None if found is None else int(found.tensors["prefix_0"])


def finish(made: Any) -> None:
    """Let the present refresh end."""
    refresher, graph, _ = made
    graph.may.release()
    until = time.monotonic() + 10.0
    while refresher._answers.empty():
        assert time.monotonic() < until
        time.sleep(0.001)


def test_before_the_first_refresh_there_is_no_prefix(made: Any):
    assert update(made, 1) is None
    assert made[0].age_s == np.inf
    finish(made)
    assert update(made, 2) == 1


def test_it_is_refreshed_at_its_period_and_nobody_waits_for_it(made: Any):
    refresher, graph, clock = made
    update(made, 1)
    finish(made)
    clock.now_s = 0.4
    assert update(made, 2) == 1
    assert refresher.age_s == pytest.approx(0.4)
    clock.now_s = 0.6
    assert update(made, 3) == 1  # the refresh begins
    clock.now_s = 1.3
    assert update(made, 4) == 1  # it is late, and no second one begins
    finish(made)
    assert update(made, 5) == 3  # and the next one begins
    assert refresher.age_s == pytest.approx(0.7)  # since the image came
    finish(made)
    assert update(made, 6) == 5
    assert graph.seen == [1, 3, 5]


def test_another_instruction_does_not_wait_for_the_period_and_has_its_own_prefix(made: Any):
    update(made, 1, instruction="see 1")
    finish(made)
    assert update(made, 2, instruction="see 2") == 1  # the refresh begins
    finish(made)
    assert update(made, 3, instruction="see 2") == 2


def test_what_was_seen_in_another_activation_is_not_acted_on(made: Any):
    update(made, 1)
    finish(made)
    assert update(made, 2) == 1
    assert update(made, 3, epoch=2) is None  # begins at once, though the period is not over
    finish(made)
    assert update(made, 4, epoch=2) == 3


def test_a_refresh_that_an_activation_leaves_behind_is_dropped_with_its_error(made: Any):
    graph = made[1]
    update(made, 1)
    graph.error = RuntimeError("no such camera")
    assert update(made, 2, epoch=2) is None  # the old one is still under way
    finish(made)
    graph.error = None
    assert update(made, 3, epoch=2) is None
    finish(made)
    assert update(made, 4, epoch=2) == 3


def test_an_error_of_a_refresh_reaches_the_control_loop_once(made: Any):
    _, graph, clock = made
    update(made, 1)
    finish(made)
    clock.now_s, graph.error = 0.6, RuntimeError("no such camera")
    assert update(made, 2) == 1
    finish(made)
    graph.error = None
    with pytest.raises(RuntimeError, match="no such camera"):
        update(made, 3)
    assert update(made, 4) == 1


def test_a_period_of_nothing_is_refused():
    with pytest.raises(ValidationError, match="period_s"):
        PrefixConfig(period_s=0.0)
