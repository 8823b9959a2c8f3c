"""Health counters of a node, for the status display, the log and benchmarks."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from robo_rl_sim2real.control.runtime import TickOutput
from robo_rl_sim2real.core.clock import RecentDurations
from robo_rl_sim2real.core.lifecycle_states import State

_WELL = (State.HOMING, State.RAMPING, State.RUNNING, State.TELEOPERATED)
"""Entering one of these states clears the last problem."""


class Health(NamedTuple):
    """The health of a node.

    Args:
        state: State of the policy.
        reason: Why commands bring the robot to rest; empty while they follow the policy.
        ticks: Number of control periods.
        missed: Number of periods skipped because an earlier one took too long.
        latency_s: Time from the arrival of the oldest reading to the command: median, 99th
            percentile.
        tick_s: Time from the start of a period to its command: median, 99th percentile.
        clamped: Number of periods in which a limit changed the command.
        refused: Number of refused requests.
        holds: Number of holds.
        hold_reasons: Reason at the beginning of a hold → number of such holds.
        problem: Present problem; empty for none. It clears when the policy starts, resumes or is
            reset, or after some seconds without a recurrence.
        dry_run: Whether commands are computed and not sent.
    """

    state: str
    reason: str
    ticks: int
    missed: int
    latency_s: tuple[float, float]
    tick_s: tuple[float, float]
    clamped: int
    refused: int
    holds: int
    hold_reasons: dict[str, int]
    problem: str
    dry_run: bool = False


class HealthCounters:
    """Counts the results of ticks.

    Args:
        dry_run: Whether commands are not sent.
        clear_after: Number of ticks without a problem, with commands that follow the policy, that
            clear the last problem.
    """

    def __init__(self, *, dry_run: bool = False, clear_after: int = 100) -> None:
        self._dry_run, self._clear_after, self._well = dry_run, clear_after, 0
        self.latency, self.spent = RecentDurations(), RecentDurations()
        self.count = self.clamped = self.refused = 0
        self.holds = Counter[str]()
        self.problem, self.state, self.reason = "", "", ""
        self.silent = True

    def count_tick(self, output: TickOutput, *, spent_s: float, age_s: float) -> None:
        """Count a tick.

        Args:
            output: Its result.
            spent_s: Its duration.
            age_s: Age of the oldest reading in use at the end of the tick.
        """
        command = output.command
        self.count, self.silent = self.count + 1, command is None
        self.spent.add(spent_s)
        self._judge(output)
        self._count_hold(output)
        self.state = output.state.value
        if command is not None and command.reason is None:
            self.latency.add(age_s)
            self.clamped += bool((command.clamped > 1e-9).any())
        if command is not None:
            self.reason = "" if command.reason is None else command.reason.value
        if output.state is State.INACTIVE:  # the robot comes to rest on request
            self.reason = ""

    def _judge(self, output: TickOutput) -> None:
        """Set or clear the problem according to a tick."""
        follows = output.command is not None and output.command.reason is None
        self._well = 0 if output.problem or not follows else self._well + 1
        moved_on = output.state.value != self.state and (
            output.state in _WELL or self.state == State.FAULTED.value
        )
        if output.problem:
            self.problem = output.problem
        elif moved_on or self._well >= self._clear_after:
            self.problem = ""

    def _count_hold(self, output: TickOutput) -> None:
        """Count a hold that begins in a tick, by the reason that its first command gives."""
        begins = output.state is State.HOLDING and self.state != State.HOLDING.value
        if begins and output.command is not None and output.command.reason is not None:
            self.holds[output.command.reason.value] += 1

    def count_refusal(self, problem: str) -> None:
        """Count a refused request."""
        self.refused, self.problem, self._well = self.refused + 1, problem, 0

    def health(self, missed: int) -> Health:
        """Return the health; from any thread."""
        reasons = dict(self.holds)
        return Health(
            self.state,
            self.reason,
            self.count,
            missed,
            self.latency.percentiles(),
            self.spent.percentiles(),
            self.clamped,
            self.refused,
            sum(reasons.values()),
            reasons,
            self.problem,
            self._dry_run,
        )
