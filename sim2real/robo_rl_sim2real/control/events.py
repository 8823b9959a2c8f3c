"""Events of a node and their listeners: readings, ticks, requests and changes of control.

A listener is called in the thread of the event and must return quickly.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol

from robo_rl_sim2real.control.runtime import TickOutput
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading


class CommandSource(str, Enum):
    """The source of the robot's commands."""

    POLICY = "policy"
    HUMAN = "human"


class Tick(NamedTuple):
    """A control period and its result.

    Args:
        number: Number of the period.
        began_s: Start of the period, on the node's clock.
        spent_s: Time from the start until the command is sent.
        output: Result of the tick.
        observed_s: Arrival time of the oldest reading in use; −inf without any.
        sent: Whether its command is sent; false in a dry run.
    """

    number: int
    began_s: float
    spent_s: float
    output: TickOutput
    observed_s: float
    sent: bool = True

    @property
    def source(self) -> CommandSource:
        """The source of the command."""
        return (
            CommandSource.HUMAN if self.output.state is State.TELEOPERATED else CommandSource.POLICY
        )


class Listener(Protocol):
    """A listener to a node's events; no call may block."""

    def on_message(self, topic: str, kind: MsgType, reading: Reading) -> None:
        """Receive a reading, in the transport's thread."""
        ...

    def on_tick(self, tick: Tick) -> None:
        """Receive a finished control period, in the control loop."""
        ...

    def on_event(self, event: str, what: str) -> None:
        """Receive another event: ``request``, ``refused`` or ``control``; in any thread."""
        ...

    def problems(self) -> list[str]:
        """Return the listener's problems, for the operator of the robot."""
        ...


class Listeners:
    """All listeners of a node; an error in one of them does not stop the node."""

    def __init__(self) -> None:
        self._by = CommandSource.POLICY
        self._all: list[Listener] = []
        self._broken = ""

    def add(self, listener: Listener) -> None:
        """Add a listener."""
        self._all.append(listener)

    def on_message(self, topic: str, kind: MsgType, reading: Reading) -> None:
        """See ``Listener``."""
        for listener in self._all:
            try:
                listener.on_message(topic, kind, reading)
            except Exception as error:  # a failing listener does not affect the robot
                self._broken = f"{type(error).__name__}: {error}"

    def on_tick(self, tick: Tick) -> None:
        """See ``Listener``; a change of the command source first sends the event ``control``."""
        if tick.source is not self._by:
            self._by = tick.source
            self.on_event("control", tick.source.value)
        for listener in self._all:
            try:
                listener.on_tick(tick)
            except Exception as error:  # as in ``on_message``
                self._broken = f"{type(error).__name__}: {error}"

    def on_event(self, event: str, what: str) -> None:
        """See ``Listener``."""
        for listener in self._all:
            try:
                listener.on_event(event, what)
            except Exception as error:  # as in ``on_message``
                self._broken = f"{type(error).__name__}: {error}"

    def problems(self) -> list[str]:
        """Return the problems of all listeners."""
        found = [problem for listener in self._all for problem in listener.problems()]
        return found + ([f"a listener broke: {self._broken}"] if self._broken else [])
