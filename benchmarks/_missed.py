"""Which control periods a node missed, and whether the machine itself stood still meanwhile."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from _standstill import Stall, StallMonitor

from robo_rl_sim2real.control.events import Tick
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading


class MissedPeriods(NamedTuple):
    """Periods that were left out, between the beginnings of two that were not; s."""

    number: int
    began_s: float
    ended_s: float


class MissedPeriodListener:
    """A listener of a node, from its next period on; see ``robo_rl_sim2real.control.events``."""

    def __init__(self) -> None:
        self.first: Tick | None = None
        self._last: Tick | None = None
        self._late = list[MissedPeriods]()

    def on_message(self, topic: str, kind: MsgType, reading: Reading) -> None:
        """Nothing to note."""

    def on_event(self, event: str, what: str) -> None:
        """Nothing to note."""

    def problems(self) -> list[str]:
        """None."""
        return []

    def on_tick(self, tick: Tick) -> None:
        """Note what was left out since the last one."""
        self.first = self.first or tick
        before, self._last = self._last, tick
        if before is not None and (number := tick.number - before.number - 1) > 0:
            self._late.append(MissedPeriods(number, before.began_s, tick.began_s))

    def figures(self, standstills: StallMonitor) -> dict[str, Any]:
        """Periods, how many were missed, and how many of those for that the machine stood still.

        ``standstills`` are counted per core, ``longest_ms`` among them, None where none are seen.
        A standstill excuses as many periods as it is long, and the one that it began in.
        """
        if self.first is None or self._last is None:
            raise SystemExit("the node did not tick")
        late, ticks = self._late, self._last.number - self.first.number
        period_s = (self._last.began_s - self.first.began_s) / max(ticks, 1)
        still = standstills.between(self.first.began_s, self._last.began_s)
        return {
            "ticks": ticks,
            "missed": sum(each.number for each in late),
            "missed_at_standstill": sum(_excused(each, still, period_s) for each in late),
            "standstills": len(still) if standstills.seen else None,
            "longest_ms": 1e3 * max((gap.long_s for gap in still), default=0.0),
        }


def _excused(late: MissedPeriods, still: list[Stall], period_s: float) -> int:
    """How many of the periods that were left out a standstill explains."""
    beside = [gap for gap in still if gap.ended_s > late.began_s and gap.began_s < late.ended_s]
    if not beside:
        return 0
    return min(late.number, math.ceil(max(gap.long_s for gap in beside) / period_s))
