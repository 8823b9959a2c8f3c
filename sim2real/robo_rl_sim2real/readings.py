"""What a robot said last: readings by topic, whatever transport brought them.

Values are float64 in SI units and quaternions wxyz; transports convert. Times are seconds of one
monotonic clock, taken when a message arrived: stamps in headers mean something only where clocks
are synchronised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robo_rl.errors import SpecError
from robo_rl.naming import did_you_mean
from robo_rl_sim2real.turns import unit

Values = NDArray[Any]


class Reading(NamedTuple):
    """One message.

    Args:
        fields: Field → its array.
        names: Names of the elements, where the message has any (joints).
        stamp_s: When it arrived.
        wire: The message as it came, in CDR; empty where the transport has no bytes.
    """

    fields: Mapping[str, Values]
    names: tuple[str, ...]
    stamp_s: float
    wire: bytes = b""


class Inbox:
    """The newest reading of every topic; written by a transport, read by the control loop."""

    def __init__(self) -> None:
        self._newest: dict[str, Reading] = {}
        self._amiss: dict[str, str] = {}

    def put(self, topic: str, reading: Reading) -> None:
        """Take a reading; one that arrived before the present one is left out."""
        before = self._newest.get(topic)
        if before is None or reading.stamp_s >= before.stamp_s:
            self._newest[topic] = reading
            self._amiss.pop(topic, None)

    def note(self, topic: str, problem: str) -> None:
        """What came last on a topic was of no use, and why; the reading before it stays."""
        self._amiss[topic] = problem

    def problem(self, topics: Iterable[str], since_s: float = -np.inf) -> str:
        """What is amiss with topics, and which fell silent then; empty for nothing."""
        found = list[str]()
        for topic in sorted(topics):
            why, newest = self._amiss.get(topic), self._newest.get(topic)
            if why is not None:
                found.append(f"{topic}: {why}")
            elif newest is not None and newest.stamp_s < since_s:
                found.append(f"{topic}: nothing came any more")
        return "; ".join(found)

    def moment(self) -> Inbox:
        """What is there now, whatever comes meanwhile: one moment for all that reads it."""
        copy = Inbox()
        copy._newest = self._newest.copy()
        return copy

    def get(self, topic: str) -> Reading | None:
        """The newest of a topic; None where nothing came yet."""
        return self._newest.get(topic)


def pick(reading: Reading, field: str, names: tuple[str, ...], where: str) -> Values:
    """A field of a reading, its elements in the order of ``names``.

    Args:
        reading: Of a topic.
        field: Which; ``rot6d`` follows from ``orientation``.
        names: Elements that are wanted; empty for all, in the reading's own order.
        where: What to call it in an error.

    Raises:
        SpecError: No such field or element, lengths that differ, a value that is not finite, or an
            orientation that is none.
    """
    values = rot6d(reading.fields["orientation"]) if _follows(reading, field) else None
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


def rot6d(quat: Values) -> Values:
    """First two columns of the rotation matrix of a quaternion wxyz: (4,) → (6,).

    Raises:
        SpecError: It is not of unit length.

    Source: Zhou et al. 2019 (arXiv 1812.07035), eq. 17.
    """
    w, x, y, z = unit(quat)
    first = [1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)]
    second = [2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)]
    return np.array(first + second)


def _follows(reading: Reading, field: str) -> bool:
    return field == "rot6d" and "rot6d" not in reading.fields and "orientation" in reading.fields


def _in_order(values: Values, have: tuple[str, ...], wanted: tuple[str, ...], where: str) -> Values:
    if len(values) != len(have) or len(set(have)) < len(have):
        raise SpecError("names and values differ in number", where=where, found=len(values))
    place = {name: i for i, name in enumerate(have)}
    missing = [name for name in wanted if name not in place]
    if missing:
        hint = did_you_mean(missing[0], have)
        raise SpecError(f"no '{missing[0]}' in what came", where=where, hint=hint)
    return values[[place[name] for name in wanted]]
