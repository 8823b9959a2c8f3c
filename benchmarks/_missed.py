"""Control periods that a node missed, and stalls of the machine in the meantime."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from _standstill import Stall, StallMonitor

from robo_rl_sim2real.control.events import Tick
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading


class MissedPeriods(NamedTuple):
    """Missed periods between the begin times of two executed ones, in s."""

    number: int
    began_s: float
    ended_s: float


class MissedPeriodListener:
    """A listener of a node from its next period on; see ``robo_rl_sim2real.control.events``."""

    def __init__(self) -> None:
        self.first: Tick | None = None
        self._last: Tick | None = None
        self._late = list[MissedPeriods]()

    def on_message(self, topic: str, kind: MsgType, reading: Reading) -> None:
        """Do nothing."""

    def on_event(self, event: str, what: str) -> None:
        """Do nothing."""

    def problems(self) -> list[str]:
        """Return no problems."""
        return []

    def on_tick(self, tick: Tick) -> None:
        """Record the periods missed since the last tick."""
        self.first = self.first or tick
        before, self._last = self._last, tick
        if before is not None and (number := tick.number - before.number - 1) > 0:
            self._late.append(MissedPeriods(number, before.began_s, tick.began_s))

    def figures(self, standstills: StallMonitor) -> dict[str, Any]:
        """Return the periods, the missed ones, and those missed because of a stall of the machine.

        ``standstills`` are counted per core, with ``longest_ms``; None where the cores are not
        monitored. A stall excuses the periods of its duration, and the one in which it began.
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
    """Return how many of the missed periods a stall explains."""
    beside = [gap for gap in still if gap.ended_s > late.began_s and gap.began_s < late.ended_s]
    if not beside:
        return 0
    return min(late.number, math.ceil(max(gap.long_s for gap in beside) / period_s))
