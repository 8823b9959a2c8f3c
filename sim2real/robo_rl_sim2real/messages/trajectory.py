"""Joint trajectories as messages: ``trajectory_msgs/msg/JointTrajectory``.

Shapes: P points, m joints.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from robo_rl.core.errors import SpecError
from robo_rl_sim2real.messages.message_factory import MessageFactory, start_immediately
from robo_rl_sim2real.messages.readings import Reading, Values

TRAJECTORY = "trajectory_msgs/msg/JointTrajectory"
FOLLOW = "control_msgs/action/FollowJointTrajectory"
"""The action with trajectories as goals."""
_POINT = "trajectory_msgs/msg/JointTrajectoryPoint"
_SPAN = "builtin_interfaces/msg/Duration"


def write_trajectory(reading: Reading, dialect: MessageFactory) -> Any:
    """Return a message of ``positions`` (P, m) and ``times`` (P,), in s from its arrival."""
    none = dialect.floats(np.zeros(0))
    points = [
        dialect.message(_POINT)(
            positions=dialect.floats(position),
            velocities=none,
            accelerations=none,
            effort=none,
            time_from_start=_span(float(at_s), dialect),
        )
        for position, at_s in zip(reading.fields["positions"], reading.fields["times"], strict=True)
    ]
    return dialect.message(TRAJECTORY)(
        header=start_immediately(dialect), joint_names=list(reading.names), points=points
    )


def read_trajectory(message: Any) -> tuple[dict[str, Values], tuple[str, ...]]:
    """Return ``positions`` (P, m), ``times`` (P,) in s, and the joint names of a message.

    Raises:
        SpecError: A point has another number of positions.
    """
    names = tuple(message.joint_names)
    rows = [np.asarray(point.positions, np.float64) for point in message.points]
    if any(len(row) != len(names) for row in rows):
        raise SpecError("trajectory", expected=f"{len(names)} positions a point")
    at = [p.time_from_start.sec + 1e-9 * p.time_from_start.nanosec for p in message.points]
    positions = np.array(rows).reshape(len(rows), len(names))
    return {"positions": positions, "times": np.array(at)}, names


def _span(seconds: float, dialect: MessageFactory) -> Any:
    sec, nanosec = divmod(round(seconds * 1e9), 1_000_000_000)
    return dialect.message(_SPAN)(sec=sec, nanosec=nanosec)
