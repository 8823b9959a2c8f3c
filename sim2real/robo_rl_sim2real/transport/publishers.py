"""Publishers that every transport shares: closing, and the status of action goals."""

from __future__ import annotations

from typing import Generic, TypeVar

from robo_rl.core.errors import RoboRlError
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.transport.base import NO_TAKER, GoalCounts

EndT = TypeVar("EndT")
"""The transport's own endpoint, such as a DDS writer."""


class ClosablePublisher(Generic[EndT]):
    """A ``Publisher`` that refuses to send after its transport is closed.

    Args:
        end: The transport's own endpoint. It is released on close.
    """

    def __init__(self, end: EndT) -> None:
        self._end: EndT | None = end

    def send(self, reading: Reading) -> None:
        """See ``Publisher``.

        Raises:
            RoboRlError: The transport is closed.
        """
        end = self._end
        if end is None:
            raise RoboRlError("the transport was closed")
        self._publish(end, reading)

    def close(self) -> None:
        """Release the endpoint; later calls of ``send`` fail."""
        self._end = None

    def _publish(self, end: EndT, reading: Reading) -> None:
        raise NotImplementedError


class GoalPublisher(ClosablePublisher[EndT]):
    """A publisher of an action's goals that counts refused goals.

    Args:
        action: The action's name.
        end: The transport's own endpoint.
    """

    def __init__(self, action: str, end: EndT) -> None:
        super().__init__(end)
        self.action = action
        self._sent = self._refused = 0

    def status(self) -> str:
        """Return the problem with the goals; empty for none."""
        end = self._end
        if end is None:
            return ""
        try:
            self._hear(end)
        except Exception as error:  # an unreadable response does not stop the node
            return f"an answer to a goal: {type(error).__name__}: {error}"
        if not self._has_taker(end):
            return NO_TAKER
        return f"{self._refused} goals of {self._sent} were refused" if self._refused else ""

    def count_goals(self) -> GoalCounts:
        """See ``AnsweredPublisher``."""
        self.status()  # takes the answers in
        return GoalCounts(self._sent, self._refused)

    def _hear(self, end: EndT) -> None:
        """Count the responses that have arrived, on transports that poll for them."""

    def _has_taker(self, end: EndT) -> bool:
        """Return whether the action has a server."""
        raise NotImplementedError
