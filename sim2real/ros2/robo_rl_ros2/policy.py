"""``ros2 run robo_rl_ros2 policy``: what ``robo-rl deploy`` does, told by ROS 2 parameters."""

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
    """Run until Ctrl-C or the shutdown transition; the process exits as ``robo-rl`` does."""
    from robo_rl.__main__ import run

    sys.argv = ["robo-rl", *words(parameters(sys.argv), sys.argv[1:])]
    run()


def parameters(args: Sequence[str]) -> dict[str, Any]:
    """What ROS 2's arguments, files and overrides say, read by a node that is gone again."""
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
    """The command line of ``robo-rl`` for these parameters.

    The transport takes ROS 2's arguments too, for names, namespaces and remappings are in them. It
    reaches as far as ROS 2's environment says, and an override may still hold it to this machine.

    Args:
        chosen: As ``parameters`` gives them.
        ros_args: As the process got them.
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
    """A word as YAML takes it, whatever is in it."""
    return "'" + word.replace("'", "''") + "'"
