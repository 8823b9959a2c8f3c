"""What publishers of every transport share: they end with it, and pursuits tell of their goals."""

from __future__ import annotations

from typing import Generic, TypeVar

from robo_rl.core.errors import RoboRlError
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.transport.base import NO_TAKER

EndT = TypeVar("EndT")
"""What a transport sends with, such as a writer of DDS."""


class ClosablePublisher(Generic[EndT]):
    """A ``Publisher`` that refuses to send once its transport was closed.

    Args:
        end: What it sends with; let go when it is closed.
    """

    def __init__(self, end: EndT) -> None:
        self._end: EndT | None = end

    def send(self, reading: Reading) -> None:
        """See ``Publisher``.

        Raises:
            RoboRlError: The transport was closed.
        """
        end = self._end
        if end is None:
            raise RoboRlError("the transport was closed")
        self._publish(end, reading)

    def close(self) -> None:
        """Send no more."""
        self._end = None

    def _publish(self, end: EndT, reading: Reading) -> None:
        raise NotImplementedError


class GoalPublisher(ClosablePublisher[EndT]):
    """A publisher of an action's goals, which counts those that were refused.

    Args:
        action: Its name.
        end: What it sends with.
    """

    def __init__(self, action: str, end: EndT) -> None:
        super().__init__(end)
        self.action = action
        self._sent = self._refused = 0

    def status(self) -> str:
        """What is wrong, empty for nothing."""
        end = self._end
        if end is None:
            return ""
        try:
            self._hear(end)
        except Exception as error:  # an answer that cannot be read is no reason to stop
            return f"an answer to a goal: {type(error).__name__}: {error}"
        if not self._has_taker(end):
            return NO_TAKER
        return f"{self._refused} goals of {self._sent} were refused" if self._refused else ""

    def _hear(self, end: EndT) -> None:
        """Count the answers that came, where they do not come by themselves."""

    def _has_taker(self, end: EndT) -> bool:
        """Whether somebody is there to take goals."""
        raise NotImplementedError
