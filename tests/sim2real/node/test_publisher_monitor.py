"""One node a topic of readings: who else publishes is found, and said."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from robo_rl.core.errors import RoboRlError
from robo_rl_sim2real.core.graph_problems import GraphProblems
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.node import publisher_monitor
from robo_rl_sim2real.node.graph_checks import GraphCheck
from robo_rl_sim2real.node.publisher_monitor import PublisherMonitor
from robo_rl_sim2real.transport.loopback import Bus, Loopback

TOPICS = {"/joint_states": MsgType.JOINT_STATES, "/pose": MsgType.POSE}


def test_a_second_publisher_is_a_problem_until_it_leaves():
    bus = Bus()
    robot, other, node = Loopback(bus), Loopback(bus), Loopback(bus)
    found = PublisherMonitor(node, TOPICS)
    robot.create_publisher("/joint_states", MsgType.JOINT_STATES)
    assert found.poll() == ""
    other.create_publisher("/joint_states", MsgType.JOINT_STATES)
    assert found.poll() == "/joint_states: 2 nodes publish it: unnamed node, unnamed node"
    assert found.problems.readings == found.problems.text
    other.close()
    assert found.poll() == ""


def test_topics_that_are_shared_and_other_interfaces_are_no_problem():
    bus = Bus()
    node = Loopback(bus)
    for _ in range(2):
        Loopback(bus).create_publisher("/pose", MsgType.POSE)
    Loopback(bus).create_publisher("/joint_states", MsgType.JOINT_STATES)
    Loopback(bus).create_publisher("/joint_states", MsgType.TEXT)
    assert PublisherMonitor(node, TOPICS, ("/pose",)).poll() == ""


def test_what_is_amiss_is_told_by_what_it_means():
    bus = Bus()
    checks = [
        GraphCheck("nobody hears", lambda _: "/command: nobody", "", "commands"),
        GraphCheck("no button", lambda _: "/estop: 2 nodes", ""),
        GraphCheck("nothing", lambda _: "", ""),
    ]
    found = PublisherMonitor(Loopback(bus), TOPICS, checks=checks)
    assert found.poll() == "/estop: 2 nodes; /command: nobody"
    assert found.problems == GraphProblems("", "/command: nobody", "/estop: 2 nodes")
    assert found.problems.holding == found.poll()


def test_while_it_is_watched_a_second_publisher_is_found_by_itself():
    bus = Bus()
    found = PublisherMonitor(Loopback(bus), TOPICS)
    with found.running():
        for _ in range(2):
            Loopback(bus).create_publisher("/pose", MsgType.POSE)
        until = time.monotonic() + 5.0
        while not found.problems.text and time.monotonic() < until:
            time.sleep(0.02)
    assert found.problems.readings.startswith("/pose: 2 nodes")


def test_a_transport_that_breaks_is_a_problem_until_it_answers_again(monkeypatch):
    bus = Bus()
    node = Loopback(bus)
    found, asked = PublisherMonitor(node, TOPICS), node.endpoints

    def broken(topic: str, *, action: bool = False):
        raise OSError("no buffer space")

    def problem() -> str:
        before, until = found.problems, time.monotonic() + 5.0
        while found.problems == before and time.monotonic() < until:
            time.sleep(0.02)
        return found.problems.readings

    monkeypatch.setattr(node, "endpoints", broken)
    with found.running():
        assert problem() == "who publishes is not known: OSError: no buffer space"
        monkeypatch.setattr(node, "endpoints", asked)
        assert problem() == ""


def test_a_query_that_hangs_is_a_problem_until_it_answers(monkeypatch):
    monkeypatch.setattr(publisher_monitor, "_OVERDUE_S", 0.8)  # more than the time between looks
    node, may = Loopback(Bus()), threading.Event()
    found, asked = PublisherMonitor(node, TOPICS), node.endpoints

    def held(topic: str, *, action: bool = False):
        may.wait(10.0)
        return asked(topic, action=action)

    def wait(done: Callable[[], bool]) -> None:
        until = time.monotonic() + 5.0
        while not done() and time.monotonic() < until:
            time.sleep(0.02)
        assert done()

    monkeypatch.setattr(node, "endpoints", held)
    with found.running():
        assert found.problems.text == ""
        wait(lambda: found.problems.readings.startswith("who publishes is not known: a query hang"))
        with pytest.raises(RoboRlError, match="a query hangs"):
            found.demand("activate")
        may.set()
        wait(lambda: found.problems.text == "")
    may.clear()
    time.sleep(1.0)
    assert found.problems.text == ""  # nobody looks, so that nothing is overdue
