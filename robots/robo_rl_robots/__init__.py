"""The robots that come with robo-rl: each folder here with a ``robot.yaml`` is a robot.

The entry point ``robo_rl_robots:panda`` reads ``panda/robot.yaml`` at its first use.
"""

from __future__ import annotations

from pathlib import Path

from robo_rl import Robot


def __getattr__(name: str) -> Robot:
    folder = Path(__file__).parent / name
    if not (folder / "robot.yaml").is_file():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = robot = Robot.from_dir(folder)
    return robot
