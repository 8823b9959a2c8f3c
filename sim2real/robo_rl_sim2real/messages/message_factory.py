"""How one library writes ROS 2 messages: rosbags' classes and rclpy's have the same fields."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from robo_rl_sim2real.messages.readings import Values


class MessageFactory(NamedTuple):
    """How one library writes messages.

    Args:
        message: Name of an interface → its class, made with its fields as keywords.
        floats: Array → what a ``float64[]`` field takes.
        octets: Bytes → what a ``uint8[]`` field takes.
        numbers: Array → what a field of sequences of its own type takes.
        octet: Number → what a ``byte`` field takes.
    """

    message: Callable[[str], Callable[..., Any]]
    floats: Callable[[Values], Any]
    octets: Callable[[bytes], Any]
    numbers: Callable[[Values], Any]
    octet: Callable[[int], Any] = int


def header(dialect: MessageFactory, at_s: float = 0.0, frame: str = "") -> Any:
    """Of a moment of the machine's monotonic clock, by the wall clock; 0 for now."""
    ago_s = time.monotonic() - at_s if at_s > 0.0 else 0.0
    return _stamped(dialect, time.time_ns() - round(ago_s * 1e9), frame)


def start_immediately(dialect: MessageFactory) -> Any:
    """What says "begin at once" to a trajectory controller."""
    return _stamped(dialect, 0)


def _stamped(dialect: MessageFactory, wall_ns: int, frame: str = "") -> Any:
    sec, nanosec = divmod(wall_ns, 1_000_000_000)
    stamp = dialect.message("builtin_interfaces/msg/Time")(sec=sec, nanosec=nanosec)
    return dialect.message("std_msgs/msg/Header")(stamp=stamp, frame_id=frame)
