"""What happened, as it waits to be recorded."""

from __future__ import annotations

from typing import NamedTuple

from robo_rl_sim2real.control.events import Tick
from robo_rl_sim2real.messages.kinds import Kind
from robo_rl_sim2real.messages.readings import Reading

_OVERHEAD = 500


class Heard(NamedTuple):
    """A reading that arrived on a topic."""

    topic: str
    kind: Kind
    reading: Reading


class Told(NamedTuple):
    """Something that happened, and when."""

    stamp_s: float
    event: str
    what: str


Item = Heard | Tick | Told


def stamp_of(item: Item) -> float:
    """When it happened."""
    if isinstance(item, Heard):
        return item.reading.stamp_s
    return item.began_s if isinstance(item, Tick) else item.stamp_s


def size_of(item: Item) -> int:
    """About how many bytes it holds."""
    if isinstance(item, Heard):
        reading = item.reading
        return _OVERHEAD + len(reading.wire) + sum(v.nbytes for v in reading.fields.values())
    if isinstance(item, Tick) and item.output.inferred is not None:
        return _OVERHEAD + item.output.inferred.act.nbytes
    return _OVERHEAD
