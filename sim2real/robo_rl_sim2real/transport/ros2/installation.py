"""The machine's installation of ROS 2: its rclpy, and its discovery range."""

# pyright: reportMissingImports=false
from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from robo_rl.core.errors import DeviceError


def rclpy_modules() -> Any:
    """Return the rclpy package with the required modules loaded.

    Raises:
        DeviceError: rclpy cannot be imported.
    """
    try:
        import rclpy
        import rclpy.callback_groups
        import rclpy.context
        import rclpy.node  # also loads rclpy.event_handler, or on Humble rclpy.qos_event
        import rclpy.qos
        import rclpy.serialization
    except ImportError as error:
        raise DeviceError(
            f"the ros2 transport needs ROS 2's own rclpy: {error}",
            hint="source /opt/ros/$ROS_DISTRO/setup.bash; where there is no ROS 2, use"
            " transport.name=dds",
        ) from error
    return rclpy


@contextmanager
def configure_discovery(ros: Any, *, network: bool) -> Generator[None]:
    """Set ROS 2's discovery range in the environment while a context starts.

    ROS 2 reads the range from environment variables only, at the start of a context. Humble has
    another variable than later distributions.
    """
    later = hasattr(ros, "event_handler")
    here = {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"} if later else {"ROS_LOCALHOST_ONLY": "1"}
    wanted = {} if network else here
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
