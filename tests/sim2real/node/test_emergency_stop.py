"""The emergency stop: a required message that is missing, and a first one that may still come."""

from __future__ import annotations

import numpy as np
import pytest

from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.node.emergency_stop import EmergencyStopListener
from robo_rl_sim2real.transport.base import COMMAND, LATCHED, Qos
from robo_rl_sim2real.transport.loopback import Bus, Loopback


class Button:
    """A listener and the button that it hears."""

    def __init__(self, qos: Qos = COMMAND, timeout_s: float = 0.0) -> None:
        self.now_s, self.heard = 10.0, list[Reading]()
        bus = Bus()
        bus.now_s = lambda: self.now_s
        self.node = Loopback(bus)
        self.out = Loopback(bus).create_publisher("/estop", MsgType.FLAG, qos)
        self.listener = EmergencyStopListener(
            self.node, "/estop", self.heard.append, lambda: self.now_s, timeout_s=timeout_s
        )

    def press(self, pressed: bool) -> None:
        self.out.send(Reading({"data": np.asarray(pressed)}, (), 0.0))


def test_a_message_is_required_only_with_a_timeout():
    assert not Button().listener.is_silent
    button = Button(timeout_s=0.2)
    assert button.listener.is_silent
    button.press(False)
    button.now_s += 0.19
    assert not button.listener.is_silent
    button.now_s += 0.02
    assert button.listener.is_silent
    assert len(button.heard) == 1


@pytest.mark.parametrize(("qos", "waits"), [(COMMAND, False), (LATCHED, True)])
def test_the_first_message_of_a_latched_publisher_may_still_come(qos: Qos, waits: bool):
    button = Button(qos)
    assert button.listener.poll(button.node) == ""
    assert button.listener.is_waiting is waits
    button.now_s += 0.6
    assert not button.listener.is_waiting


def test_nothing_is_waited_for_once_a_message_came():
    button = Button(LATCHED)
    button.listener.poll(button.node)
    button.press(False)
    assert not button.listener.is_waiting


def test_the_check_says_why_presses_may_be_missed():
    button = Button(Qos(reliable=False))
    assert button.listener.check.find(button.node) == button.listener.poll(button.node)
    assert button.listener.check.find(button.node).startswith("/estop: ")


def test_a_press_is_passed_on_before_the_start_stops_waiting_for_it():
    button, waits = Button(LATCHED), list[bool]()
    button.listener._put = lambda _: waits.append(button.listener.is_waiting)
    button.listener.poll(button.node)
    button.press(True)
    assert waits[0]
    assert not button.listener.is_waiting
