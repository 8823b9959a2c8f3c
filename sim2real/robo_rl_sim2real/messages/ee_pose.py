"""The end effector's six numbers as ROS 2 has them: poses, and velocities.

Shapes: (6,) position in m and rotation vector in rad; see ``robo_rl.api.control_axes.Hand``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from robo_rl.api.robot import Robot
from robo_rl.core.errors import SpecError
from robo_rl_sim2real.core.rotations import inverse, product, quat_of, turn_of, unit
from robo_rl_sim2real.messages.readings import Reading, Values, pick


class HandPoses(NamedTuple):
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
    def of(cls, robot: Robot) -> HandPoses:
        """A robot's."""
        if robot.hand is None:
            return cls()
        return cls(robot.hand.names, robot.hand.upright, robot.frames.base)

    def pose(self, numbers: Values) -> Reading:
        """As a pose."""
        turned = product(quat_of(numbers[3:]), np.array(self.upright))
        fields = {"position": numbers[:3], "orientation": turned, "frame": np.asarray(self.frame)}
        return Reading(fields, (), 0.0)

    def twist(self, numbers: Values, before: Values, dt_s: float) -> Reading:
        """The constant velocity that led from one to the other in ``dt_s``."""
        turned = product(quat_of(numbers[3:]), inverse(quat_of(before[3:])))
        fields = {
            "linear": (numbers[:3] - before[:3]) / dt_s,
            "angular": turn_of(turned) / dt_s,
            "frame": np.asarray(self.frame),
        }
        return Reading(fields, (), 0.0)

    def numbers(self, reading: Reading, where: str) -> Values:
        """A pose as the six numbers.

        Raises:
            SpecError: It is in another frame, not finite, or no orientation.
        """
        self.demand_frame(reading, where)
        back = inverse(np.array(self.upright))
        turn = product(unit(pick(reading, "orientation", (), where)), back)
        return np.concatenate([pick(reading, "position", (), where), turn_of(turn)])

    def moved(self, numbers: Values, twist: Reading, span_s: float) -> Values:
        """Where a velocity takes the hand within ``span_s``."""
        linear, angular = twist.fields["linear"], twist.fields["angular"]
        turn = turn_of(product(quat_of(angular * span_s), quat_of(numbers[3:])))
        return np.concatenate([numbers[:3] + linear * span_s, turn])

    def demand_frame(self, reading: Reading, where: str) -> None:
        """Refuse what is said in another frame; one that is not named is taken for ours.

        Raises:
            SpecError: It is.
        """
        said = str(reading.fields.get("frame", ""))
        if said and said != self.frame:
            raise SpecError(f"{where}: frame", expected=self.frame, found=said)
