"""Items of the recorder's backlog: readings, ticks, events and the node's health."""

from __future__ import annotations

from typing import Any, NamedTuple

from robo_rl_sim2real.control.events import Tick
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading

_OVERHEAD = 500


class MessageItem(NamedTuple):
    """A reading that arrived on a topic."""

    topic: str
    kind: MsgType
    reading: Reading


class EventItem(NamedTuple):
    """An event and its time."""

    stamp_s: float
    event: str
    what: str


class HealthItem(NamedTuple):
    """The node's health at a time, name → number or text."""

    stamp_s: float
    health: dict[str, Any]


Item = MessageItem | Tick | EventItem | HealthItem


def stamp_of(item: Item) -> float:
    """Return the time of an item."""
    if isinstance(item, MessageItem):
        return item.reading.stamp_s
    return item.began_s if isinstance(item, Tick) else item.stamp_s


def size_of(item: Item) -> int:
    """Return the approximate size of an item in bytes."""
    if isinstance(item, MessageItem):
        reading = item.reading
        return _OVERHEAD + len(reading.wire) + sum(v.nbytes for v in reading.fields.values())
    if isinstance(item, Tick) and item.output.chunk is not None:
        return _OVERHEAD + item.output.chunk.act.nbytes
    return _OVERHEAD
