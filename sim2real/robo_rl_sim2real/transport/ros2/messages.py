"""rclpy's message classes by interface name, and their array types."""

from __future__ import annotations

from array import array
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from robo_rl.core.errors import DeviceError
from robo_rl_sim2real.messages.message_factory import MessageFactory


@cache
def interface(name: str) -> Any:
    """Return the class of an interface, such as ``std_msgs/msg/Bool`` or ``std_srvs/srv/Trigger``.

    Raises:
        DeviceError: Its package is not installed.
    """
    package, group, cls = name.split("/")
    try:
        return getattr(import_module(f"{package}.{group}"), cls)
    except (ImportError, AttributeError) as error:
        raise DeviceError(
            f"interface '{name}': {error}",
            hint=f"install ros-$ROS_DISTRO-{package.replace('_', '-')} and source ROS 2's setup",
        ) from error


def _floats(values: Any) -> array[float]:
    """Return an array made from bytes, because conversion by element is as slow as inference."""
    return array("d", np.ascontiguousarray(values, np.float64).tobytes())


def _octets(data: bytes) -> array[int]:
    return array("B", data)


def _numbers(values: Any) -> array[Any]:
    return array(values.dtype.char, np.ascontiguousarray(values).tobytes())


def _octet(value: int) -> bytes:
    return bytes([value])


DIALECT = MessageFactory(interface, _floats, _octets, _numbers, _octet)
"""Message factory of rclpy."""
