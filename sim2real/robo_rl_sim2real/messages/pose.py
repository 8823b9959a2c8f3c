"""Poses and velocities as ROS 2 messages, which have quaternions xyzw; readings have wxyz."""

from __future__ import annotations

from typing import Any

import numpy as np

from robo_rl.core.errors import SpecError
from robo_rl_sim2real.messages.message_factory import MessageFactory, header
from robo_rl_sim2real.messages.readings import Reading, Values

POSE = "geometry_msgs/msg/PoseStamped"
TWIST = "geometry_msgs/msg/TwistStamped"

Parts = tuple[dict[str, Values], tuple[str, ...]]


def write_pose(reading: Reading, dialect: MessageFactory) -> Any:
    """Return a message of ``position``, ``orientation``, and ``frame`` if there is one."""
    qw, qx, qy, qz = map(float, reading.fields["orientation"])
    point = _vector(dialect, "Point", reading.fields["position"])
    turn = dialect.message("geometry_msgs/msg/Quaternion")(x=qx, y=qy, z=qz, w=qw)
    pose = dialect.message("geometry_msgs/msg/Pose")(position=point, orientation=turn)
    return dialect.message(POSE)(header=_header(reading, dialect), pose=pose)


def read_pose(message: Any) -> Parts:
    """Return ``position``, ``orientation``, and ``frame`` if there is one, of a message."""
    p, q = message.pose.position, message.pose.orientation
    turn = np.array([q.w, q.x, q.y, q.z])
    return {"position": np.array([p.x, p.y, p.z]), "orientation": turn, **_frame(message)}, ()


def write_twist(reading: Reading, dialect: MessageFactory) -> Any:
    """Return a message of ``linear``, ``angular``, and ``frame`` if there is one."""
    parts = {
        name: _vector(dialect, "Vector3", reading.fields[name]) for name in ("linear", "angular")
    }
    twist = dialect.message("geometry_msgs/msg/Twist")(**parts)
    return dialect.message(TWIST)(header=_header(reading, dialect), twist=twist)


def read_twist(message: Any) -> Parts:
    """Return ``linear``, ``angular``, and ``frame`` if there is one, of a message."""
    v, w = message.twist.linear, message.twist.angular
    parts = {"linear": np.array([v.x, v.y, v.z]), "angular": np.array([w.x, w.y, w.z])}
    return {**parts, **_frame(message)}, ()


def check_frame(reading: Reading, frame: str, where: str, hint: str = "") -> None:
    """Refuse a reading in another frame; a reading without the name of a frame is accepted.

    Raises:
        SpecError: The frame is another one.
    """
    said = str(reading.fields.get("frame", ""))
    if said and said != frame:
        raise SpecError(f"{where}: frame", expected=frame, found=said, hint=hint or None)


def _vector(dialect: MessageFactory, kind: str, values: Values) -> Any:
    x, y, z = map(float, values)
    return dialect.message(f"geometry_msgs/msg/{kind}")(x=x, y=y, z=z)


def _header(reading: Reading, dialect: MessageFactory) -> Any:
    return header(dialect, reading.stamp_s, str(reading.fields.get("frame", "")))


def _frame(message: Any) -> dict[str, Values]:
    said = message.header.frame_id
    return {"frame": np.asarray(said)} if said else {}
