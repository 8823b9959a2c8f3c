"""What a start requires is asked in one order, and the graph only of a robot that stands."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from small_robot import TOPIC, Bench

from robo_rl.core.errors import RoboRlError
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Inbox, Reading
from robo_rl_sim2real.node.emergency_stop import EmergencyStopListener
from robo_rl_sim2real.node.publisher_monitor import PublisherMonitor
from robo_rl_sim2real.node.start_checks import StartChecks
from robo_rl_sim2real.transport.base import LATCHED, Endpoint
from robo_rl_sim2real.transport.loopback import Bus, Loopback
from robo_rl_sim2real.watchdog.guard import Unguarded, WatchdogLostError


class Start(Unguarded):
    """A robot at rest, all of whose conditions hold unless a test breaks them."""

    def __init__(self) -> None:
        self.bench, self.bus = Bench(), Bus()
        self.bench.life.configure()
        self.node, self.lost, self.looks, self.look_s = Loopback(self.bus), False, 0, 0.0
        self.button = Loopback(self.bus).create_publisher("/estop", MsgType.FLAG)
        self.estop = EmergencyStopListener(
            self.node, "/estop", lambda _: None, self.bench.read, timeout_s=5.0
        )
        self.bus.now_s = self.bench.read
        self.button.send(Reading({"data": np.asarray(False)}, (), 0.0))
        self._endpoints = self.node.endpoints
        self.node.endpoints = self.endpoints  # type: ignore[method-assign]
        graph = PublisherMonitor(
            self.node, {TOPIC: MsgType.JOINT_STATES}, checks=[self.estop.check]
        )
        parts = (self.bench.runtime, self.bench.inbox, self.estop, graph)
        self.checks = StartChecks(*parts, lambda: self, self.bench.read)

    def check(self) -> None:
        if self.lost:
            raise WatchdogLostError("the watchdog ended")

    def endpoints(self, topic: str, *, action: bool = False) -> list[Endpoint]:
        self.looks += 1
        self.bench.now_s += self.look_s
        return self._endpoints(topic, action=action)


def stop(start: Start) -> None:
    start.bench.life.request_stop()


def move(start: Start) -> None:
    start.bench.runtime.parts.safety.limiter.step(np.full(5, 0.2))


def activate(start: Start) -> None:
    start.bench.watch()
    start.bench.runtime.activate(start.bench.inbox, 0)


def silence(start: Start) -> None:
    start.bench.now_s += 6.0


def empty(start: Start) -> None:
    start.checks._inbox = Inbox()


def lose(start: Start) -> None:
    start.lost = True


def rival(start: Start) -> None:
    for _ in range(2):
        Loopback(start.bus).create_publisher(TOPIC, MsgType.JOINT_STATES)


def delay(start: Start) -> None:
    start.look_s = 0.6


def latch(start: Start) -> None:
    other = EmergencyStopListener(start.node, "/other", lambda _: None, start.bench.read)
    Loopback(start.bus).create_publisher("/other", MsgType.FLAG, LATCHED)
    other.poll(start.node)
    start.checks._estop = other


ORDER: list[tuple[Callable[[Start], None], str, bool]] = [
    (activate, "cannot home while ramping", False),
    (stop, "cannot home: a stop was requested", False),
    (move, "cannot home: the robot is still coming to rest", False),
    (silence, "cannot home: no message on the emergency-stop topic", False),
    (empty, "cannot home: observations are not fresh; found none on /joint_states", False),
    (lose, "the watchdog ended", False),
    (rival, "cannot home: readings of several sources", True),
    (delay, "cannot home: the graph answered late", True),
    (latch, "cannot home: the emergency stop is being read", True),
]


def test_a_start_whose_conditions_hold_is_not_refused():
    start = Start()
    start.checks.demand("home")
    assert start.looks == 2


@pytest.mark.parametrize(("broken", "says", "looks"), ORDER)
def test_a_condition_that_does_not_hold_refuses_a_start(
    broken: Callable[[Start], None], says: str, looks: bool
):
    start = Start()
    broken(start)
    before = start.looks
    with pytest.raises(RoboRlError, match=says):
        start.checks.demand("home")
    assert (start.looks > before) is looks


@pytest.mark.parametrize("first", range(1, 6))
def test_of_several_conditions_the_first_is_said(first: int):
    start = Start()
    for broken, _, _ in ORDER[first:-1]:
        broken(start)
    with pytest.raises(RoboRlError, match=ORDER[first][1]):
        start.checks.demand("home")
