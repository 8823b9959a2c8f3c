"""Asking a policy at once and in a thread."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from robo_rl_sim2real.control.chunk_scheduler import ChunkScheduler
from robo_rl_sim2real.control.inference import (
    FailedInference,
    InferenceRequest,
    InferenceResult,
    InferenceRunner,
    InlineInferenceRunner,
    ThreadedInferenceRunner,
)
from robo_rl_sim2real.control.policy_queries import PolicyInput, PolicyQueries


def question(tick: int) -> InferenceRequest:
    return InferenceRequest({"tick": np.full((1, 1), tick, np.float32)}, tick, tick / 50.0)


def query(obs, plan=None) -> np.ndarray:
    return np.broadcast_to(obs["tick"][:, :, None], (1, 3, 2)).astype(np.float32)


def waited(planner: InferenceRunner) -> InferenceResult:
    found = answered(planner)
    assert isinstance(found, InferenceResult)
    return found


def answered(planner: InferenceRunner) -> InferenceResult | FailedInference:
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


def broken(obs, plan) -> np.ndarray:
    raise ValueError("graph")


def test_what_the_query_raises_reaches_the_loop_with_its_question():
    planner = ThreadedInferenceRunner(broken, Hand())
    for tick in (1, 2):  # and it still lives
        planner.submit(question(tick))
        found = answered(planner)
        assert isinstance(found, FailedInference)
        assert found.question.tick == tick
        assert str(found.error) == "graph"
    planner.close()


@pytest.mark.parametrize("restarts", [False, True])
def test_what_a_query_of_another_activation_raises_is_no_fault(restarts: bool):
    policy = PolicyQueries(
        ThreadedInferenceRunner(broken, Hand()), ChunkScheduler(ChunkScheduler.Config(), 2)
    )
    policy.request(PolicyInput({}, 10.0), 0, executes=True)
    if restarts:
        policy.restart()
    raised = list[str]()
    for _ in range(500):
        try:
            policy.receive(0, 2)
        except ValueError as error:
            raised.append(str(error))
        if policy.inference.idle:
            break
        time.sleep(0.01)
    assert policy.inference.idle
    assert raised == ([] if restarts else ["graph"])
    policy.close()
