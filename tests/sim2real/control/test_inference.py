"""Asking a policy at once and in a thread."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from robo_rl_sim2real.control.inference import (
    InferenceRequest,
    InferenceResult,
    InferenceRunner,
    InlineInferenceRunner,
    ThreadedInferenceRunner,
)


def question(tick: int) -> InferenceRequest:
    return InferenceRequest({"tick": np.full((1, 1), tick, np.float32)}, tick, tick / 50.0)


def query(obs, plan=None) -> np.ndarray:
    return np.broadcast_to(obs["tick"][:, :, None], (1, 3, 2)).astype(np.float32)


def waited(planner: InferenceRunner) -> InferenceResult:
    for _ in range(500):
        found = planner.poll()
        if found is not None:
            return found
        time.sleep(0.01)
    raise AssertionError("no answer in five seconds")


class Hand:
    """A clock that moves when it is told to."""

    time_s = 10.0

    def __call__(self) -> float:
        return self.time_s


@pytest.mark.parametrize("kind", ["inline", "thread"])
def test_every_question_has_its_own_answer_once(kind):
    planner = (
        InlineInferenceRunner(query) if kind == "inline" else ThreadedInferenceRunner(query, Hand())
    )
    assert planner.poll() is None
    for tick in (3, 4):
        planner.submit(question(tick))
        found = waited(planner)
        assert found.question.tick == tick
        assert (found.act == float(tick)).all()
        assert found.act.shape == (3, 2)
        assert found.act.dtype == np.float64
        assert planner.poll() is None
        assert planner.idle
        assert planner.pending_s() == 0.0
    planner.close()


def test_a_thread_lets_the_loop_go_on_and_tells_for_how_long():
    go = threading.Event()

    def slow(obs, plan) -> np.ndarray:
        go.wait(5.0)
        return query(obs)

    hand = Hand()
    planner = ThreadedInferenceRunner(slow, hand)
    planner.submit(question(1))
    assert planner.poll() is None
    hand.time_s += 0.5
    assert not planner.idle
    assert planner.pending_s() == 0.5
    go.set()
    assert waited(planner).question.tick == 1
    planner.close()


def test_what_the_query_raises_reaches_the_loop():
    def broken(obs, plan) -> np.ndarray:
        raise ValueError("graph")

    planner = ThreadedInferenceRunner(broken, Hand())
    planner.submit(question(1))
    with pytest.raises(ValueError, match="graph"):
        waited(planner)
    planner.submit(question(2))  # and it still lives
    with pytest.raises(ValueError, match="graph"):
        waited(planner)
    planner.close()
