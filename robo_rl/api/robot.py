"""A robot: joints, limits, gains, frames, cameras, rates and topics, read from ``robot.yaml``.

A robot is a folder with a ``robot.yaml`` and the MJCF that the YAML names; it needs no Python. The
MJCF holds bodies, inertias, shapes and joint ranges; actuators and sensors are built from the
YAML. Sizes: nq joints of one coordinate, nu actuators, one per joint that mimics no other.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import PrivateAttr

from robo_rl.api.robot_description import RobotDescription
from robo_rl.config.models import compose, validate
from robo_rl.core.errors import ConfigError

FILE_NAME = "robot.yaml"


class Robot(RobotDescription):
    """The description of one machine, with the folder of its files.

    Read it with ``from_dir``; the fields are those of ``RobotDescription``.
    """

    _folder: Path = PrivateAttr(default=Path())

    @classmethod
    def from_dir(cls, path: str | Path) -> Robot:
        """Read ``path/robot.yaml``.

        Raises:
            ConfigError: The file is missing, is no YAML, or describes no robot; it names each line.
        """
        file = Path(path) / FILE_NAME
        if not file.is_file():
            hint = f"a robot is a folder that holds a {FILE_NAME}"
            raise ConfigError("no such file", where=file, hint=hint)
        robot = validate(compose(file.resolve(), search=[]), cls)
        robot._folder = file.parent.resolve()
        return robot

    def spec(self) -> Any:
        """Return the robot alone as a fresh ``mujoco.MjSpec`` with actuators, sensors and cameras.

        Raises:
            ConfigError: The MJCF is missing or cannot be read.
            SpecError: MJCF and YAML disagree on a name or on the order of the joints.
        """
        from robo_rl.api.robot_mjcf import build

        return build(self, self._folder / self.mjcf)
