"""Conversion of the end effector's six axes to ROS 2 poses and velocities.

Shapes: (6,) position in m and rotation vector in rad; see ``robo_rl.api.control_axes``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from robo_rl.api.robot import Robot
from robo_rl.core.rotations import (
    quat_conj,
    quat_mul,
    quat_to_rotvec,
    rotvec_to_quat,
    turn_between,
    turn_rotvec,
    unit_quat,
)
from robo_rl_sim2real.messages.pose import check_frame
from robo_rl_sim2real.messages.readings import Reading, Values, select_by_name


class EePoseAxes(NamedTuple):
    """How a robot's axis values map to poses and velocities.

    Args:
        names: (6,) names of the axes; empty without a commanded end effector.
        upright: (4,) orientation at which the rotation vector is zero, wxyz.
        frame: Frame of poses and velocities.
    """

    names: tuple[str, ...] = ()
    upright: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0)
    frame: str = ""

    @classmethod
    def of(cls, robot: Robot) -> EePoseAxes:
        """Return the axes of a robot."""
        if robot.end_effector is None:
            return cls()
        return cls(robot.end_effector.names, robot.end_effector.upright, robot.frames.base)

    def pose(self, numbers: Values) -> Reading:
        """Return the values (6,) as a pose."""
        turned = quat_mul(rotvec_to_quat(numbers[3:]), np.array(self.upright))
        fields = {"position": numbers[:3], "orientation": turned, "frame": np.asarray(self.frame)}
        return Reading(fields, (), 0.0)

    def twist(self, numbers: Values, before: Values, dt_s: float) -> Reading:
        """Return the constant velocity that leads from ``before`` to ``numbers`` in ``dt_s``."""
        fields = {
            "linear": (numbers[:3] - before[:3]) / dt_s,
            "angular": turn_between(before[3:], numbers[3:]) / dt_s,
            "frame": np.asarray(self.frame),
        }
        return Reading(fields, (), 0.0)

    def numbers(self, reading: Reading, where: str) -> Values:
        """Return a pose as the values (6,).

        Raises:
            SpecError: It is in another frame, not finite, or its orientation is invalid.
        """
        self.check_frame(reading, where)
        back = quat_conj(np.array(self.upright))
        turn = quat_mul(unit_quat(select_by_name(reading, "orientation", (), where)), back)
        return np.concatenate(
            [select_by_name(reading, "position", (), where), quat_to_rotvec(turn)]
        )

    def integrate_twist(self, numbers: Values, twist: Reading, span_s: float) -> Values:
        """Return the values (6,) after motion at a constant velocity for ``span_s``."""
        linear, angular = twist.fields["linear"], twist.fields["angular"]
        turn = turn_rotvec(numbers[3:], angular * span_s)
        return np.concatenate([numbers[:3] + linear * span_s, turn])

    def check_frame(self, reading: Reading, where: str) -> None:
        """Refuse a reading in another frame; a reading without a frame name is accepted.

        Raises:
            SpecError: The frame is another one.
        """
        check_frame(reading, self.frame, where)
