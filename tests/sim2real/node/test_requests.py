"""Requests are granted by the loop's thread, once, and whoever asks learns what became of them."""

from __future__ import annotations

import threading
import time

import pytest

from robo_rl.core.errors import RoboRlError
from robo_rl_sim2real.node.requests import Requests
from robo_rl_sim2real.transport.base import ServiceResponse


def refuse() -> None:
    raise RoboRlError("cannot: not now")


@pytest.fixture
def done() -> list[str]:
    return []


@pytest.fixture
def requests(done: list[str]) -> Requests:
    return Requests({"go": lambda: done.append("go"), "not": refuse})


def test_they_are_granted_in_order_and_told(requests: Requests, done: list[str]):
    for what in ("go", "not", "dance", "go"):
        requests.submit(what)
    assert done == []
    told = list(requests.process_all())
    assert done == ["go", "go"]
    assert [what for what, _ in told] == ["go", "not", "dance", "go"]
    assert told[0][1] == told[3][1] == ""
    assert "not now" in told[1][1]
    assert "no request 'dance'; possible: go, not" in told[2][1]


@pytest.mark.parametrize(("what", "expected"), [("go", True), ("not", False), ("dance", False)])
def test_who_asks_waits_for_the_answer(requests: Requests, what: str, expected: bool):
    answers: list[ServiceResponse] = []
    asking = threading.Thread(target=lambda: answers.append(requests.submit_and_wait(what, 20.0)))
    asking.start()
    while asking.is_alive():
        list(requests.process_all())
    assert [reply.success for reply in answers] == [expected]


def test_what_nobody_waits_for_any_more_is_not_granted(requests: Requests, done: list[str]):
    reply = requests.submit_and_wait("go", 0.01)
    assert reply == ServiceResponse(False, "'go' was not granted within 0.01 s: withdrawn")
    assert list(requests.process_all()) == []
    assert done == []


def test_a_node_that_leaves_grants_nothing_and_tells_who_asked(requests: Requests, done: list[str]):
    requests.open = False
    requests.submit("go")
    assert list(requests.process_all()) == []
    answers: list[ServiceResponse] = []
    asking = threading.Thread(target=lambda: answers.append(requests.submit_and_wait("go", 20.0)))
    asking.start()
    while asking.is_alive():
        list(requests.process_all())
    assert answers == [ServiceResponse(False, "cannot go: the node is leaving")]
    assert done == []


def test_more_can_be_offered(requests: Requests, done: list[str]):
    requests.register("dance", lambda: done.append("dance"))
    requests.submit("dance")
    assert list(requests.process_all()) == [("dance", "")]
    assert done == ["dance"]


def test_who_asked_learns_of_a_loop_that_broke():
    def broken() -> None:
        raise ZeroDivisionError("not its fault")

    requests, answers = Requests({"go": broken}), list[ServiceResponse]()
    asking = threading.Thread(target=lambda: answers.append(requests.submit_and_wait("go", 20.0)))
    asking.start()
    while requests.made == 0:
        time.sleep(0.001)
    time.sleep(0.01)
    with pytest.raises(ZeroDivisionError):
        list(requests.process_all())
    asking.join(5.0)
    assert answers == [ServiceResponse(False, "ZeroDivisionError: not its fault")]


@pytest.mark.parametrize(("what", "granted"), [("activate", 0), ("reset", 0), ("shutdown", 1)])
def test_what_could_move_the_robot_does_not_outlive_a_stop(what, granted):
    stops, done = [0], list[str]()
    requests = Requests({what: lambda: done.append(what)}, lambda: len(stops))
    requests.submit(what)
    stops.append(1)
    ((_, problem),) = list(requests.process_all())
    assert len(done) == granted
    assert ("a stop came after" in problem) == (not granted)
    requests.submit(what)
    assert list(requests.process_all()) == [(what, "")]


@pytest.mark.parametrize("what", ["activate", "home", "reset", "deactivate", "stop"])
def test_what_could_move_the_robot_is_void_once_it_is_old_and_the_rest_is_not(what: str):
    now, done = [0.0], list[str]()
    requests = Requests({what: lambda: done.append(what)}, now_s=lambda: now[0])
    moves = what in ("activate", "home", "reset")
    requests.submit(what)
    now[0] = 1.2
    ((_, problem),) = list(requests.process_all())
    assert ("it was asked for 1.2 s ago" in problem) == moves
    assert done == ([] if moves else [what])


def test_after_a_standstill_of_the_loop_only_what_is_surely_new_moves_the_robot():
    now, done = [0.0], list[str]()
    requests = Requests({"activate": lambda: done.append("activate")}, now_s=lambda: now[0])
    for now[0], granted in ((0.0, 1), (0.9, 1), (5.0, 0), (5.9, 0), (6.1, 1)):
        done.clear()
        requests.submit("activate")
        ((_, problem),) = list(requests.process_all())
        assert len(done) == granted
        assert ("stood still for 4.1 s" in problem) == (not granted)
