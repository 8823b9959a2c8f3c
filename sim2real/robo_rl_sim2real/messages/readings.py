"""The robot's latest readings by topic, independent of the transport.

Values are float64 in SI units and quaternions wxyz; transports convert. Times are arrival times in
seconds of one monotonic clock. Header times are of the sender's clock, which can differ from the
local clock. They give the order of one sender's readings and the time between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robo_rl.core.errors import SpecError
from robo_rl.core.rotations import quat_to_rot6d, unit_quat
from robo_rl.core.suggestions import did_you_mean

Values = NDArray[Any]

CLOCK_SET_S = 1.0
"""Decrease of header times, in s, that indicates a reset clock rather than a late reading."""
_ARRIVALS = 4
"""Number of arrival times that are kept per topic."""
_GAPS = 31
"""Number of longer gaps that are kept per topic, beside the latest."""


class Reading(NamedTuple):
    """One message.

    Args:
        fields: Field → its array.
        names: Names of the elements, if the message has any (joints).
        stamp_s: Time of arrival.
        wire: The received message in CDR; empty if the transport has no bytes.
        sent_s: Time in the header, on the sender's clock; 0 without one.
    """

    fields: Mapping[str, Values]
    names: tuple[str, ...]
    stamp_s: float
    wire: bytes = b""
    sent_s: float = 0.0


class Inbox:
    """The newest reading of every topic; the transport writes, the control loop reads."""

    def __init__(self) -> None:
        self._newest: dict[str, Reading] = {}
        self._arrivals: dict[str, tuple[float, ...]] = {}
        self._gaps: dict[str, tuple[tuple[float, float], ...]] = {}
        """Topic → (arrival, time since the one before) of gaps that no later one exceeds."""
        self._repeats: dict[str, int] = {}
        self._amiss: dict[str, str] = {}

    def put(self, topic: str, reading: Reading) -> None:
        """Store a reading; ignore it if it is not newer than the present one.

        It is not newer if it arrived earlier, has an earlier header time, or repeats the present
        reading. A header time that decreases by more than ``CLOCK_SET_S`` indicates a reset clock.
        """
        before = self._newest.get(topic)
        if before is not None and _is_older(reading, before):
            return
        if before is not None and _is_same(reading, before):
            self._repeats[topic] = self._repeats.get(topic, 0) + 1
            return
        if before is not None:  # before the reading, so that whoever sees it sees its gap
            self._note_gap(topic, reading.stamp_s, reading.stamp_s - before.stamp_s)
        self._newest[topic] = reading
        self._arrivals[topic] = (*self._arrivals.get(topic, ())[1 - _ARRIVALS :], reading.stamp_s)
        self._repeats.pop(topic, None)
        self._amiss.pop(topic, None)

    def report_problem(self, topic: str, problem: str) -> None:
        """Record why the last message of a topic is unusable; the previous reading stays."""
        self._amiss[topic] = problem

    def problem(self, topics: Iterable[str], since_s: float = -np.inf) -> str:
        """Return the problems of topics, and the topics silent since ``since_s``; empty if none."""
        found = list[str]()
        for topic in sorted(topics):
            why, newest = self._amiss.get(topic), self._newest.get(topic)
            if why is not None:
                found.append(f"{topic}: {why}")
            elif newest is not None and newest.stamp_s < since_s:
                found.append(f"{topic}: {self._silence(topic)}")
        return "; ".join(found)

    def gap_s(self, topic: str) -> float:
        """Return the longest time between a topic's latest readings; infinity with too few."""
        arrivals = self._arrivals.get(topic, ())
        return float(np.diff(arrivals).max()) if len(arrivals) == _ARRIVALS else np.inf

    def longest_gap_s(self, topic: str, since_s: float) -> float:
        """Return the longest time before one of a topic's readings that arrived after ``since_s``.

        Readings that the control loop did not look at count too; 0 without any.
        """
        return next((gap_s for at_s, gap_s in self._gaps.get(topic, ()) if at_s > since_s), 0.0)

    def snapshot(self) -> Inbox:
        """Return a copy of the present readings and their gaps, unaffected by later ones."""
        copy = Inbox()
        copy._newest = self._newest.copy()
        copy._gaps = self._gaps.copy()
        return copy

    def _note_gap(self, topic: str, at_s: float, gap_s: float) -> None:
        longer = [known for known in self._gaps.get(topic, ()) if known[1] > gap_s]
        self._gaps[topic] = (*longer[-_GAPS:], (at_s, gap_s))

    def _silence(self, topic: str) -> str:
        repeats = self._repeats.get(topic, 0)
        if not repeats:
            return "nothing came any more"
        return f"the same reading came {repeats + 1} times, its header does not advance"

    def get(self, topic: str) -> Reading | None:
        """Return the newest reading of a topic; None without any."""
        return self._newest.get(topic)


def select_by_name(reading: Reading, field: str, names: tuple[str, ...], where: str) -> Values:
    """Return a field of a reading, with its elements in the order of ``names``.

    Args:
        reading: Reading of a topic.
        field: Name of the field; ``rot6d`` is computed from ``orientation``.
        names: Names of the elements; empty for all, in the reading's own order.
        where: Name of the source in an error.

    Raises:
        SpecError: A missing field or element, different lengths, a value that is not finite, or an
            invalid orientation.
    """
    follows = _follows(reading, field)
    values = quat_to_rot6d(unit_quat(reading.fields["orientation"])) if follows else None
    if values is None:
        values = reading.fields.get(field)
    if values is None:
        hint = did_you_mean(field, reading.fields)
        raise SpecError(f"no field '{field}' in what came", where=where, hint=hint)
    if names and reading.names:
        values = _in_order(values, reading.names, names, where)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise SpecError("not finite", where=where, found=values.tolist())
    return values


def _is_older(reading: Reading, before: Reading) -> bool:
    if reading.stamp_s < before.stamp_s:
        return True
    stamped = reading.sent_s > 0.0 and before.sent_s > 0.0
    return stamped and 0.0 < before.sent_s - reading.sent_s < CLOCK_SET_S


def _is_same(reading: Reading, before: Reading) -> bool:
    """Return whether a reading repeats the values and header time of the one before."""
    if reading.sent_s <= 0.0 or reading.sent_s != before.sent_s:
        return False
    fields, others = reading.fields, before.fields
    return fields.keys() == others.keys() and all(
        np.array_equal(value, others[name]) for name, value in fields.items()
    )


def _follows(reading: Reading, field: str) -> bool:
    return field == "rot6d" and "rot6d" not in reading.fields and "orientation" in reading.fields


def _in_order(values: Values, have: tuple[str, ...], wanted: tuple[str, ...], where: str) -> Values:
    if len(set(have)) < len(have):
        twice = next(name for name in have if have.count(name) > 1)
        raise SpecError(
            f"'{twice}' is named twice", where=where, hint="two sources in one message?"
        )
    if len(values) != len(have):
        problem, expected = "names and values differ in number", f"{len(have)} values"
        raise SpecError(problem, where=where, expected=expected, found=len(values))
    place = {name: i for i, name in enumerate(have)}
    missing = [name for name in wanted if name not in place]
    if missing:
        hint = did_you_mean(missing[0], have)
        raise SpecError(f"no '{missing[0]}' in what came", where=where, hint=hint)
    return values[[place[name] for name in wanted]]
