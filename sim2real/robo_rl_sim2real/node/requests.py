"""Requests to a node: submitted from any thread, granted in its loop between two ticks."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from robo_rl.core.errors import RoboRlError
from robo_rl_sim2real.transport.base import ServiceResponse

Grant = Callable[[], None]

PATIENCE_S = 1.0
"""Time for which a caller waits for the loop, and for which a request for motion is valid."""

_MOVES = frozenset({"activate", "home", "reset"})
"""Requests that let the robot move, now or later."""


class Requests:
    """Queue of requests and the functions that grant them.

    A request that can start motion is void if a stop follows it, or if it is old. It is also void
    shortly after the loop stood still: the messages that reach a stopped process are received when
    the process continues, and nothing tells their age.

    Args:
        grants: Request → function that grants it; a ``RoboRlError`` refuses it.
        stops: Returns the number of stops so far.
        now_s: Monotonic clock, which advances while the process is stopped and the computer
            suspended.
    """

    def __init__(
        self,
        grants: Mapping[str, Grant],
        stops: Callable[[], int] = lambda: 0,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.open, self.made, self._stops, self._now_s = True, 0, stops, now_s
        self._grants, self._waiting = dict(grants), queue.SimpleQueue[_Request]()
        self._processed_s, self._resumed_s, self._stood_s = float("inf"), float("-inf"), 0.0
        self.granted = Counter[str]()
        """Request → number of times that it was granted."""

    def register(self, what: str, grant: Grant) -> None:
        """Add a request."""
        self._grants[what] = grant

    def submit(self, what: str) -> None:
        """Submit a request without waiting for the result."""
        self._put(what, PATIENCE_S)

    def submit_and_wait(self, what: str, patience_s: float = PATIENCE_S) -> ServiceResponse:
        """Submit a request and wait for the result; a request that times out is withdrawn."""
        request = self._put(what, patience_s)
        try:
            return request.answer.get(timeout=patience_s)
        except queue.Empty:
            if request.claim():
                return ServiceResponse(
                    False, f"'{what}' was not granted within {patience_s:g} s: withdrawn"
                )
            return request.answer.get()  # the loop is granting it now

    def process_all(self) -> Iterator[tuple[str, str]]:
        """Grant or refuse all waiting requests; yield each with its problem, empty if granted.

        Every control period calls it, so that a loop that stood still is noticed. Once ``open`` is
        false, no request is granted and only the callers receive the result.
        """
        self._notice_standstill()
        while not self._waiting.empty():
            request = self._waiting.get()
            if not request.claim():
                continue
            try:
                problem = self._granted(request)
            except Exception as error:  # the caller must not wait for a failed loop
                request.answer.put(ServiceResponse(False, f"{type(error).__name__}: {error}"))
                raise
            request.answer.put(ServiceResponse(not problem, problem or f"granted: {request.what}"))
            self.granted[request.what] += not problem
            if self.open:
                yield request.what, problem

    def _put(self, what: str, patience_s: float) -> _Request:
        request = _Request(what, self._stops(), self._now_s(), patience_s)
        self.made += 1
        self._waiting.put(request)
        return request

    def _notice_standstill(self) -> None:
        now_s = self._now_s()
        stood_s = now_s - self._processed_s
        if stood_s > PATIENCE_S:
            self._resumed_s, self._stood_s = now_s, stood_s
        self._processed_s = now_s

    def _granted(self, request: _Request) -> str:
        what, grant = request.what, self._grants.get(request.what)
        if grant is None:
            hint = f"possible: {', '.join(self._grants)}"
            return str(RoboRlError(f"no request '{what}'", hint=hint))
        if not self.open:
            return f"cannot {what}: the node is leaving"
        if what in _MOVES and (void := self._void(request)):
            return f"cannot {what}: {void}"
        try:
            grant()
        except RoboRlError as error:
            return str(error)
        return ""

    def _void(self, request: _Request) -> str:
        """Return why a request may not move the robot any more; empty if it may."""
        if self._stops() != request.stops:
            return "a stop came after it was asked for"
        age_s = self._now_s() - request.made_s
        if age_s > request.patience_s:
            why = f"it was asked for {age_s:.1f} s ago, at most {request.patience_s:g} s are valid"
        elif request.made_s < self._resumed_s + PATIENCE_S:
            why = (
                f"the control loop stood still for {self._stood_s:.1f} s, until less than"
                f" {PATIENCE_S:g} s before, so the request may be old"
            )
        else:
            return ""
        return f"{why}; request it again"


class _Request:
    """A request; either the loop or the caller claims it first."""

    def __init__(self, what: str, stops: int, made_s: float, patience_s: float) -> None:
        self.what, self.stops, self.answer = what, stops, queue.SimpleQueue[ServiceResponse]()
        self.made_s, self.patience_s = made_s, patience_s
        self._taken = threading.Lock()

    def claim(self) -> bool:
        """Claim the request; return whether it was unclaimed."""
        return self._taken.acquire(blocking=False)
