"""How a node has been doing: numbers for a view, a log and a benchmark."""

from __future__ import annotations

from typing import NamedTuple

from robo_rl_sim2real.runtime import Output
from robo_rl_sim2real.states import State
from robo_rl_sim2real.ticks import Recent


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
        problem: The latest thing that was wrong, empty for nothing.
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


class Record:
    """Counts what comes of ticks."""

    def __init__(self) -> None:
        self.latency, self.spent = Recent(), Recent()
        self.count = self.clamped = self.refused = 0
        self.problem, self.state, self.reason = "", "", ""
        self.silent = True

    def add(self, output: Output, *, spent_s: float, age_s: float) -> None:
        """A tick.

        Args:
            output: What came of it.
            spent_s: How long it took.
            age_s: Age of the oldest reading in use when it ended.
        """
        command = output.command
        self.count, self.silent = self.count + 1, command is None
        self.spent.add(spent_s)
        self.state, self.problem = output.state.value, output.problem or self.problem
        if command is not None and command.reason is None:
            self.latency.add(age_s)
            self.clamped += bool((command.clamped > 1e-9).any())
        if command is not None:
            self.reason = "" if command.reason is None else command.reason.value
        if output.state is State.INACTIVE:  # why it is on its way to rest is that it was told to
            self.reason = ""

    def refuse(self, problem: str) -> None:
        """A request was not granted."""
        self.refused, self.problem = self.refused + 1, problem

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
        )
