"""Who wants to know what a node does: every reading, every tick, and what else happened.

A listener hears of it in the thread in which it happened, so it must only take note.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol

from robo_rl_sim2real.control.runtime import TickOutput
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading


class CommandSource(str, Enum):
    """Who commands the robot."""

    POLICY = "policy"
    HUMAN = "human"


class Tick(NamedTuple):
    """A control period and what came of it.

    Args:
        number: Its own.
        began_s: When it began, on the node's clock.
        spent_s: From then until its command was on its way.
        output: What came of it.
        observed_s: When the oldest reading in use arrived; −inf where none did.
        sent: Whether its command was sent; in a dry run none is.
    """

    number: int
    began_s: float
    spent_s: float
    output: TickOutput
    observed_s: float
    sent: bool = True

    @property
    def source(self) -> CommandSource:
        """Whose command it is."""
        return (
            CommandSource.HUMAN if self.output.state is State.TELEOPERATED else CommandSource.POLICY
        )


class Listener(Protocol):
    """What a node tells; no call may wait for anything."""

    def on_message(self, topic: str, kind: MsgType, reading: Reading) -> None:
        """A reading arrived; in the transport's thread."""
        ...

    def on_tick(self, tick: Tick) -> None:
        """A control period is over; in the control loop."""
        ...

    def on_event(self, event: str, what: str) -> None:
        """Something else happened: ``request``, ``refused``, ``control``; in any thread."""
        ...

    def problems(self) -> list[str]:
        """What is wrong with it, for whoever looks after the robot."""
        ...


class Listeners:
    """All of a node's; none of them can break it."""

    def __init__(self) -> None:
        self._by = CommandSource.POLICY
        self._all: list[Listener] = []
        self._broken = ""

    def add(self, listener: Listener) -> None:
        """One more, from now on."""
        self._all.append(listener)

    def on_message(self, topic: str, kind: MsgType, reading: Reading) -> None:
        """See ``Listener``."""
        for listener in self._all:
            try:
                listener.on_message(topic, kind, reading)
            except Exception as error:  # a listener's trouble is no matter of the robot's
                self._broken = f"{type(error).__name__}: {error}"

    def on_tick(self, tick: Tick) -> None:
        """See ``Listener``; the event ``control`` comes before the first tick of another hand."""
        if tick.source is not self._by:
            self._by = tick.source
            self.on_event("control", tick.source.value)
        for listener in self._all:
            try:
                listener.on_tick(tick)
            except Exception as error:  # likewise
                self._broken = f"{type(error).__name__}: {error}"

    def on_event(self, event: str, what: str) -> None:
        """See ``Listener``."""
        for listener in self._all:
            try:
                listener.on_event(event, what)
            except Exception as error:  # likewise
                self._broken = f"{type(error).__name__}: {error}"

    def problems(self) -> list[str]:
        """Of all of them."""
        found = [problem for listener in self._all for problem in listener.problems()]
        return found + ([f"a listener broke: {self._broken}"] if self._broken else [])
