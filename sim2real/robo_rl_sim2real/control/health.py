"""How a node has been doing: numbers for a view, a log and a benchmark."""

from __future__ import annotations

from typing import NamedTuple

from robo_rl_sim2real.control.runtime import TickOutput
from robo_rl_sim2real.core.clock import RecentDurations
from robo_rl_sim2real.core.lifecycle_states import State

_WELL = (State.HOMING, State.RAMPING, State.RUNNING, State.TELEOPERATED)
"""Who gets here has left behind what was wrong."""


class Health(NamedTuple):
    """As it stands.

    Args:
        state: Of the policy.
        reason: Why commands are a way to rest, empty while they follow the policy.
        ticks: Control periods so far.
        missed: Periods that were left out because the one before took too long.
        latency_s: From the arrival of the oldest reading to the command: median, 99th percentile.
        tick_s: From the beginning of a period to its command, likewise.
        clamped: Periods in which a limit changed the command.
        refused: Requests that were not granted.
        problem: What is wrong, empty for nothing. What is over is not in it any more: the policy
            has begun, goes on again, or was reset, or nothing came of it for some seconds.
        dry_run: Whether commands are worked out and not sent.
    """

    state: str
    reason: str
    ticks: int
    missed: int
    latency_s: tuple[float, float]
    tick_s: tuple[float, float]
    clamped: int
    refused: int
    problem: str
    dry_run: bool = False


class HealthCounters:
    """Counts what comes of ticks.

    Args:
        dry_run: Whether commands are not sent.
        clear_after: Ticks without a problem, while the policy is followed, after which it is over.
    """

    def __init__(self, *, dry_run: bool = False, clear_after: int = 100) -> None:
        self._dry_run, self._clear_after, self._well = dry_run, clear_after, 0
        self.latency, self.spent = RecentDurations(), RecentDurations()
        self.count = self.clamped = self.refused = 0
        self.problem, self.state, self.reason = "", "", ""
        self.silent = True

    def count_tick(self, output: TickOutput, *, spent_s: float, age_s: float) -> None:
        """A tick.

        Args:
            output: What came of it.
            spent_s: How long it took.
            age_s: Age of the oldest reading in use when it ended.
        """
        command = output.command
        self.count, self.silent = self.count + 1, command is None
        self.spent.add(spent_s)
        self._judge(output)
        self.state = output.state.value
        if command is not None and command.reason is None:
            self.latency.add(age_s)
            self.clamped += bool((command.clamped > 1e-9).any())
        if command is not None:
            self.reason = "" if command.reason is None else command.reason.value
        if output.state is State.INACTIVE:  # why it is on its way to rest is that it was told to
            self.reason = ""

    def _judge(self, output: TickOutput) -> None:
        """Whether there is a problem, or the last one is over."""
        follows = output.command is not None and output.command.reason is None
        self._well = 0 if output.problem or not follows else self._well + 1
        moved_on = output.state.value != self.state and (
            output.state in _WELL or self.state == State.FAULTED.value
        )
        if output.problem:
            self.problem = output.problem
        elif moved_on or self._well >= self._clear_after:
            self.problem = ""

    def count_refusal(self, problem: str) -> None:
        """A request was not granted."""
        self.refused, self.problem, self._well = self.refused + 1, problem, 0

    def health(self, missed: int) -> Health:
        """All of it."""
        return Health(
            self.state,
            self.reason,
            self.count,
            missed,
            self.latency.percentiles(),
            self.spent.percentiles(),
            self.clamped,
            self.refused,
            self.problem,
            self._dry_run,
        )
