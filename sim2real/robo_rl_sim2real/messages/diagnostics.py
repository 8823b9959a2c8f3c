"""Diagnostic messages of ROS 2: statuses with levels, messages and named values.

Shapes: n statuses, m named values in total; ``row`` (m,) is the status of each value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from robo_rl_sim2real.messages.readings import Reading, Values


class Level(IntEnum):
    """Severity level (diagnostic_msgs/msg/DiagnosticStatus)."""

    OK = 0
    WARN = 1
    ERROR = 2
    STALE = 3


class Status(NamedTuple):
    """The status of one component.

    Args:
        name: Name of the component.
        level: Severity.
        message: Description in one sentence.
        values: Named values, formatted for display.
    """

    name: str
    level: Level
    message: str
    values: Mapping[str, str]


def statuses_to_reading(statuses: Sequence[Status], hardware: str) -> Reading:
    """Return statuses as a reading; ``hardware`` is the device that they describe."""
    rows = [(row, k, v) for row, status in enumerate(statuses) for k, v in status.values.items()]
    fields: dict[str, Values] = {
        "level": np.array([status.level for status in statuses], np.uint8),
        "message": _texts(status.message for status in statuses),
        "hardware": _texts(hardware for _ in statuses),
        "row": np.array([row for row, *_ in rows], np.int64),
        "key": _texts(key for _, key, _ in rows),
        "value": _texts(value for *_, value in rows),
    }
    return Reading(fields, tuple(status.name for status in statuses), 0.0)


def write(
    reading: Reading, message: Callable[[str], Callable[..., Any]], octet: Callable[[int], Any]
) -> list[Any]:
    """Return a reading as messages of type DiagnosticStatus.

    Args:
        reading: Reading from ``statuses_to_reading``.
        message: Maps the name of an interface to its class.
        octet: Converts a number for a ``byte`` field.
    """
    fields, pair = reading.fields, message("diagnostic_msgs/msg/KeyValue")
    pairs: list[list[Any]] = [[] for _ in reading.names]
    for row, key, value in zip(fields["row"], fields["key"], fields["value"], strict=True):
        pairs[int(row)].append(pair(key=str(key), value=str(value)))
    status = message("diagnostic_msgs/msg/DiagnosticStatus")
    said = zip(reading.names, fields["level"], fields["message"], fields["hardware"], strict=True)
    return [
        status(
            level=octet(int(level)), name=name, message=str(text), hardware_id=str(about), values=v
        )
        for (name, level, text, about), v in zip(said, pairs, strict=True)
    ]


def read(message: Any) -> tuple[dict[str, Values], tuple[str, ...]]:
    """Return a message of type DiagnosticArray as fields and names."""
    found = message.status
    rows = [(row, pair) for row, status in enumerate(found) for pair in status.values]
    fields: dict[str, Values] = {
        "level": np.array([_level(status.level) for status in found], np.uint8),
        "message": _texts(status.message for status in found),
        "hardware": _texts(status.hardware_id for status in found),
        "row": np.array([row for row, _ in rows], np.int64),
        "key": _texts(pair.key for _, pair in rows),
        "value": _texts(pair.value for _, pair in rows),
    }
    return fields, tuple(status.name for status in found)


def _texts(values: Any) -> Values:
    return np.array(list(values), np.str_)


def _level(value: Any) -> int:
    """Return a ``byte`` field as int; some libraries give bytes, others a number."""
    return value[0] if isinstance(value, bytes) else int(value)
