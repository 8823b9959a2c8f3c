"""What a node is asked to do: from any thread, granted in its loop between two ticks."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping

from robo_rl.errors import RoboRlError
from robo_rl_sim2real.transport.base import Reply

Grant = Callable[[], None]

PATIENCE_S = 1.0
"""For how long whoever asks waits for the loop."""


class Requests:
    """Requests that wait for the loop, and what grants each.

    Args:
        grants: Request → what grants it; a ``RoboRlError`` refuses it.
    """

    def __init__(self, grants: Mapping[str, Grant]) -> None:
        self.open = True
        self._grants, self._waiting = dict(grants), queue.SimpleQueue[_Request]()

    def offer(self, what: str, grant: Grant) -> None:
        """One more that can be asked for."""
        self._grants[what] = grant

    def put(self, what: str) -> None:
        """Ask, and do not wait for what becomes of it."""
        self._waiting.put(_Request(what))

    def ask(self, what: str, patience_s: float = PATIENCE_S) -> Reply:
        """Ask and wait for the answer; a request that nobody waits for any more is not granted."""
        request = _Request(what)
        self._waiting.put(request)
        try:
            return request.answer.get(timeout=patience_s)
        except queue.Empty:
            if request.take():
                return Reply(False, f"'{what}' was not granted within {patience_s:g} s: withdrawn")
            return request.answer.get()  # it is being granted at this moment

    def grant(self) -> Iterator[tuple[str, str]]:
        """Grant or refuse all that wait; gives each with why not, empty for granted.

        Once it is not ``open`` any more nothing is granted, and only who asked is told.
        """
        while not self._waiting.empty():
            request = self._waiting.get()
            if not request.take():
                continue
            problem = self._granted(request.what)
            request.answer.put(Reply(not problem, problem or f"granted: {request.what}"))
            if self.open:
                yield request.what, problem

    def _granted(self, what: str) -> str:
        grant = self._grants.get(what)
        if grant is None:
            hint = f"possible: {', '.join(self._grants)}"
            return str(RoboRlError(f"no request '{what}'", hint=hint))
        if not self.open:
            return f"cannot {what}: the node is leaving"
        try:
            grant()
        except RoboRlError as error:
            return str(error)
        return ""


class _Request:
    """One of them; belongs to the loop or goes back to who asked, whoever takes it first."""

    def __init__(self, what: str) -> None:
        self.what, self.answer = what, queue.SimpleQueue[Reply]()
        self._taken = threading.Lock()

    def take(self) -> bool:
        """Whether nobody took it before."""
        return self._taken.acquire(blocking=False)
