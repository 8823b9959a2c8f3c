"""What a node is asked to do: from any thread, granted in its loop between two ticks."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping

from robo_rl.core.errors import RoboRlError
from robo_rl_sim2real.transport.base import ServiceResponse

Grant = Callable[[], None]

PATIENCE_S = 1.0
"""For how long whoever asks waits for the loop."""

_MOVES = frozenset({"activate", "home", "reset"})
"""What lets a robot move, now or later."""


class Requests:
    """Requests that wait for the loop, and what grants each.

    Args:
        grants: Request → what grants it; a ``RoboRlError`` refuses it.
        stops: How often a stop was asked for so far. What was requested before the last one and
            could set the robot going again is void.
    """

    def __init__(self, grants: Mapping[str, Grant], stops: Callable[[], int] = lambda: 0) -> None:
        self.open, self.made, self._stops = True, 0, stops
        self._grants, self._waiting = dict(grants), queue.SimpleQueue[_Request]()

    def register(self, what: str, grant: Grant) -> None:
        """One more that can be asked for."""
        self._grants[what] = grant

    def submit(self, what: str) -> None:
        """Ask, and do not wait for what becomes of it."""
        self._put(what)

    def submit_and_wait(self, what: str, patience_s: float = PATIENCE_S) -> ServiceResponse:
        """Ask and wait for the answer; a request that nobody waits for any more is not granted."""
        request = self._put(what)
        try:
            return request.answer.get(timeout=patience_s)
        except queue.Empty:
            if request.claim():
                return ServiceResponse(
                    False, f"'{what}' was not granted within {patience_s:g} s: withdrawn"
                )
            return request.answer.get()  # it is being granted at this moment

    def process_all(self) -> Iterator[tuple[str, str]]:
        """Grant or refuse all that wait; gives each with why not, empty for granted.

        Once it is not ``open`` any more nothing is granted, and only who asked is told.
        """
        while not self._waiting.empty():
            request = self._waiting.get()
            if not request.claim():
                continue
            try:
                problem = self._granted(request)
            except Exception as error:  # who asked must not wait for ever for a loop that broke
                request.answer.put(ServiceResponse(False, f"{type(error).__name__}: {error}"))
                raise
            request.answer.put(ServiceResponse(not problem, problem or f"granted: {request.what}"))
            if self.open:
                yield request.what, problem

    def _put(self, what: str) -> _Request:
        request = _Request(what, self._stops())
        self.made += 1
        self._waiting.put(request)
        return request

    def _granted(self, request: _Request) -> str:
        what, grant = request.what, self._grants.get(request.what)
        if grant is None:
            hint = f"possible: {', '.join(self._grants)}"
            return str(RoboRlError(f"no request '{what}'", hint=hint))
        if not self.open:
            return f"cannot {what}: the node is leaving"
        if what in _MOVES and self._stops() != request.stops:
            return f"cannot {what}: a stop came after it was asked for"
        try:
            grant()
        except RoboRlError as error:
            return str(error)
        return ""


class _Request:
    """One of them; belongs to the loop or goes back to who asked, whoever takes it first."""

    def __init__(self, what: str, stops: int) -> None:
        self.what, self.stops, self.answer = what, stops, queue.SimpleQueue[ServiceResponse]()
        self._taken = threading.Lock()

    def claim(self) -> bool:
        """Whether nobody took it before."""
        return self._taken.acquire(blocking=False)
