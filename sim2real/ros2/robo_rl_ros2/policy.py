"""``ros2 run robo_rl_ros2 policy``: ``robo-rl deploy`` with ROS 2 parameters."""

from __future__ import annotations

# pyright: reportMissingImports=false
import os
import sys
from collections.abc import Sequence
from typing import Any

NAME = "policy"
DEFAULTS: dict[str, Any] = {
    "bundle": "",
    "settings": "",
    "overrides": [""],
    "home": False,
    "activate": False,
    "dry_run": False,
}
"""Parameter → its default; see config/policy.yaml."""
_FLAGS = ("home", "activate", "dry_run")


def main() -> None:
    """Run until Ctrl-C or the shutdown transition, with the exit status of ``robo-rl``."""
    from robo_rl.__main__ import run

    sys.argv = ["robo-rl", *words(parameters(sys.argv), sys.argv[1:])]
    run()


def parameters(args: Sequence[str]) -> dict[str, Any]:
    """Return the parameters in ROS 2's arguments, files and overrides, read by a temporary node."""
    from rclpy.context import Context
    from rclpy.node import Node

    context = Context()
    context.init(args=list(args))
    node = Node(NAME, context=context, start_parameter_services=False, enable_rosout=False)
    try:
        return {name: node.declare_parameter(name, value).value for name, value in DEFAULTS.items()}
    finally:
        node.destroy_node()
        context.try_shutdown()


def words(chosen: dict[str, Any], ros_args: Sequence[str]) -> list[str]:
    """Return the command line of ``robo-rl`` for these parameters.

    The transport also receives ROS 2's arguments, which hold names, namespaces and remappings. Its
    reach follows ROS 2's environment; an override can restrict it to this machine.

    Args:
        chosen: Parameters from ``parameters``.
        ros_args: Arguments of the process.
    """
    listed = ",".join(_quoted(word) for word in ros_args)
    flags = [f"--{name.replace('_', '-')}" for name in _FLAGS if chosen[name]]
    return [
        *("deploy", *flags),
        *(["--settings", chosen["settings"]] if chosen["settings"] else []),
        "--transport",
        "ros2",
        "--",
        chosen["bundle"],
        "transport.network=true",
        f"transport.domain={os.environ.get('ROS_DOMAIN_ID') or 0}",
        f"transport.args=[{listed}]",
        *(word for word in chosen["overrides"] if word),
    ]


def _quoted(word: str) -> str:
    """Return a word as a quoted YAML string."""
    return "'" + word.replace("'", "''") + "'"
