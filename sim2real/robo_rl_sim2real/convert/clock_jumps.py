"""Detects clock resets in foreign bags, around which the order of messages is unknown.

Shapes: N messages of one sender, in the order of their times in the bag. Times are in seconds since
the bag began.

Rows use the messages' arrival times on the recorder's clock. If that clock is set back, the times
decrease in the order of writing, and reading by time mixes rows from before and after. Headers
carry the sender's clock. If header times decrease, or their offset from the recorder's times
changes permanently, a clock was reset or messages were delivered out of order. A temporary delay is
no clock jump.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from robo_rl.core.errors import DataError
from robo_rl_sim2real.convert.bag_reader import BagReader
from robo_rl_sim2real.convert.commands import command_topics_of
from robo_rl_sim2real.convert.conversion_spec import ConversionSpec
from robo_rl_sim2real.messages.kinds import IMAGES
from robo_rl_sim2real.messages.readings import Values

_PASSES_S = 1.0  # time until a late message is followed by a punctual one


class ClockJump(NamedTuple):
    """A period of the bag without a reliable order, and its evidence.

    Args:
        from_s: Start of the period.
        to_s: End of the period.
        reason: The evidence.
        mixed: Whether messages from before and after the jump are mixed in the period.
    """

    from_s: float
    to_s: float
    reason: str
    mixed: bool = False

    def contains(self, at_s: float) -> bool:
        """Return whether a time is within the period."""
        return self.from_s <= at_s <= self.to_s

    def __str__(self) -> str:
        return f"{self.reason}; no rows from {max(self.from_s, 0.0):.3f} to {self.to_s:.3f} s"


def find_clock_jumps(bag: BagReader, wanted: ConversionSpec, outcome: str) -> list[ClockJump]:
    """Return all clock jumps of a bag, in order and disjoint; none for a recording by the node.

    The node's recordings have times of a monotonic clock, and the node itself used arrival times.

    Args:
        bag: Open bag.
        wanted: Contract and sources of the rows.
        outcome: Topic of outcomes.

    Raises:
        DataError: The bag is damaged.
    """
    if wanted.is_own_recording:
        return []
    tolerance_s, observed = wanted.dt_s / 2, wanted.observer().topics
    commands = [way.topic for way in command_topics_of(wanted)]
    found = list(_falls(bag, {*observed, *commands, outcome}, tolerance_s))
    stamped = [topic for topic, kind in observed.items() if kind not in IMAGES]
    for came_s, header_s in _stamps(bag, stamped):
        found += _parted(came_s, header_s, tolerance_s)
    return _apart(found, wanted.dt_s + wanted.max_age_s)


def check_outcomes_separable(
    path: Path, found: Sequence[ClockJump], told: Sequence[tuple[float, bool | None]]
) -> None:
    """Check that every outcome belongs to an episode before or after a jump.

    Raises:
        DataError: An outcome lies where messages are mixed.
    """
    for at_s, _ in told:
        if jump := next((each for each in found if each.mixed and each.contains(at_s)), None):
            problem = f"an outcome at {at_s:.3f} s, of which episode is not known"
            hint = "cut the recording there, and convert its parts"
            raise DataError(problem, where=path, found=jump, hint=hint)


def _falls(bag: BagReader, topics: Collection[str], tolerance_s: float) -> Iterator[ClockJump]:
    """Yield the jumps at which a topic's times decrease in the order of writing."""
    newest_s, last_s = -np.inf, dict[str, float]()
    for topic, at_s in bag.write_order():
        if topic not in topics:
            continue
        fall_s = last_s.get(topic, at_s) - at_s
        if fall_s > tolerance_s:
            why = f"times of '{topic}' fall by {fall_s:.3f} s in the file: a clock was set back"
            yield ClockJump(at_s, newest_s, why, mixed=True)
        newest_s, last_s[topic] = max(newest_s, at_s), at_s


def _stamps(bag: BagReader, topics: Sequence[str]) -> Iterator[tuple[Values, Values]]:
    """Yield arrival and header times (N,) of each sender: a topic and the names in its messages."""
    found: dict[tuple[str, tuple[str, ...]], list[tuple[float, float]]] = {}
    for came in bag.messages(topics):
        if np.isfinite(came.header_s):
            of = found.setdefault((came.topic, came.reading.names), [])
            of.append((came.reading.stamp_s, came.header_s))
    for pairs in found.values():
        came_s, header_s = np.array(pairs).T
        yield came_s, header_s


def _parted(came_s: Values, header_s: Values, tolerance_s: float) -> Iterator[ClockJump]:
    """Yield the jumps at which header times (N,) decrease or their offset changes permanently."""
    late_s, run_s = came_s - header_s, np.diff(header_s)
    for i in np.flatnonzero(np.abs(np.diff(late_s)) > tolerance_s):
        place = float(came_s[i]), float(came_s[i + 1])
        if run_s[i] < -tolerance_s:
            yield ClockJump(*place, f"headers run back by {-run_s[i]:.3f} s")
            continue
        before = late_s[: i + 1][came_s[: i + 1] > came_s[i] - _PASSES_S].min()
        after = late_s[i + 1 :][header_s[i + 1 :] < header_s[i + 1] + _PASSES_S].min()
        if abs(after - before) > tolerance_s:
            yield ClockJump(
                *place, f"headers and times part by {after - before:+.3f} s: a clock was set"
            )


def _apart(found: Iterable[ClockJump], margin_s: float) -> list[ClockJump]:
    """Return the jumps with a margin around each, merged where they overlap."""
    apart: list[ClockJump] = []
    for jump in sorted(found, key=lambda each: each.from_s):
        wide = jump._replace(from_s=jump.from_s - margin_s, to_s=jump.to_s + margin_s)
        if apart and wide.from_s <= apart[-1].to_s:
            apart[-1] = _joined(apart[-1], wide)
        else:
            apart.append(wide)
    return apart


def _joined(one: ClockJump, other: ClockJump) -> ClockJump:
    """Return the union of two jumps, with the reason of a mixing one first."""
    said = other if other.mixed and not one.mixed else one
    return said._replace(
        from_s=one.from_s, to_s=max(one.to_s, other.to_s), mixed=one.mixed or other.mixed
    )
