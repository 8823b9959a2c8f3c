"""Message factories: rosbags' and rclpy's message classes have the same fields."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from robo_rl_sim2real.messages.readings import Values


class MessageFactory(NamedTuple):
    """How one library builds messages.

    Args:
        message: Name of an interface → its class, which takes the fields as keywords.
        floats: Converts an array for a ``float64[]`` field.
        octets: Converts bytes for a ``uint8[]`` field.
        numbers: Converts an array for a sequence field of the array's own type.
        octet: Converts a number for a ``byte`` field.
    """

    message: Callable[[str], Callable[..., Any]]
    floats: Callable[[Values], Any]
    octets: Callable[[bytes], Any]
    numbers: Callable[[Values], Any]
    octet: Callable[[int], Any] = int


def header(dialect: MessageFactory, at_s: float = 0.0, frame: str = "") -> Any:
    """Return a header with the wall-clock time of a monotonic time; 0 for the present time."""
    ago_s = time.monotonic() - at_s if at_s > 0.0 else 0.0
    return _stamped(dialect, time.time_ns() - round(ago_s * 1e9), frame)


def start_immediately(dialect: MessageFactory) -> Any:
    """Return the header with time 0, at which a trajectory controller starts at once."""
    return _stamped(dialect, 0)


def _stamped(dialect: MessageFactory, wall_ns: int, frame: str = "") -> Any:
    sec, nanosec = divmod(wall_ns, 1_000_000_000)
    stamp = dialect.message("builtin_interfaces/msg/Time")(sec=sec, nanosec=nanosec)
    return dialect.message("std_msgs/msg/Header")(stamp=stamp, frame_id=frame)
