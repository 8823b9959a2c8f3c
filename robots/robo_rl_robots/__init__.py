"""The robots that come with robo-rl: every folder here that holds a ``robot.yaml`` is one.

``robo_rl_robots:panda`` in an entry point reads ``panda/robot.yaml`` when it is first named.
"""

from __future__ import annotations

from pathlib import Path

from robo_rl import Robot


def __getattr__(name: str) -> Robot:
    folder = Path(__file__).parent / name
    if not (folder / "robot.yaml").is_file():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return Robot.from_dir(folder)
