"""The end effector's six numbers as ROS 2 has them: poses, and velocities.

Shapes: (6,) position in m and rotation vector in rad; see ``robo_rl.api.control_axes.Hand``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from robo_rl.api.robot import Robot
from robo_rl.core.errors import SpecError
from robo_rl.core.rotations import (
    quat_conj,
    quat_mul,
    quat_to_rotvec,
    rotvec_to_quat,
    unit_quat,
)
from robo_rl_sim2real.messages.readings import Reading, Values, select_by_name


class EePoseAxes(NamedTuple):
    """How the numbers of a robot are poses and velocities.

    Args:
        names: (6,) of the axes; none where the robot has no hand to command.
        upright: (4,) orientation at which nothing is turned, wxyz.
        frame: In which poses are, and velocities.
    """

    names: tuple[str, ...] = ()
    upright: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0)
    frame: str = ""

    @classmethod
    def of(cls, robot: Robot) -> EePoseAxes:
        """A robot's."""
        if robot.end_effector is None:
            return cls()
        return cls(robot.end_effector.names, robot.end_effector.upright, robot.frames.base)

    def pose(self, numbers: Values) -> Reading:
        """As a pose."""
        turned = quat_mul(rotvec_to_quat(numbers[3:]), np.array(self.upright))
        fields = {"position": numbers[:3], "orientation": turned, "frame": np.asarray(self.frame)}
        return Reading(fields, (), 0.0)

    def twist(self, numbers: Values, before: Values, dt_s: float) -> Reading:
        """The constant velocity that led from one to the other in ``dt_s``."""
        turned = quat_mul(rotvec_to_quat(numbers[3:]), quat_conj(rotvec_to_quat(before[3:])))
        fields = {
            "linear": (numbers[:3] - before[:3]) / dt_s,
            "angular": quat_to_rotvec(turned) / dt_s,
            "frame": np.asarray(self.frame),
        }
        return Reading(fields, (), 0.0)

    def numbers(self, reading: Reading, where: str) -> Values:
        """A pose as the six numbers.

        Raises:
            SpecError: It is in another frame, not finite, or no orientation.
        """
        self.check_frame(reading, where)
        back = quat_conj(np.array(self.upright))
        turn = quat_mul(unit_quat(select_by_name(reading, "orientation", (), where)), back)
        return np.concatenate(
            [select_by_name(reading, "position", (), where), quat_to_rotvec(turn)]
        )

    def integrate_twist(self, numbers: Values, twist: Reading, span_s: float) -> Values:
        """Where a velocity takes the hand within ``span_s``."""
        linear, angular = twist.fields["linear"], twist.fields["angular"]
        turn = quat_to_rotvec(
            quat_mul(rotvec_to_quat(angular * span_s), rotvec_to_quat(numbers[3:]))
        )
        return np.concatenate([numbers[:3] + linear * span_s, turn])

    def check_frame(self, reading: Reading, where: str) -> None:
        """Refuse what is said in another frame; one that is not named is taken for ours.

        Raises:
            SpecError: It is.
        """
        said = str(reading.fields.get("frame", ""))
        if said and said != self.frame:
            raise SpecError(f"{where}: frame", expected=self.frame, found=said)
