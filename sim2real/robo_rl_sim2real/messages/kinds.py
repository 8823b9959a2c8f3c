"""Supported ROS 2 interfaces and their conversion to readings.

One conversion serves every transport, because the classes of every ``MessageFactory`` (rosbags,
rclpy) have the same fields. Images are (height, width, channels).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from robo_rl_sim2real.messages import camera, pose, trajectory
from robo_rl_sim2real.messages import diagnostics as reports
from robo_rl_sim2real.messages.message_factory import MessageFactory, header
from robo_rl_sim2real.messages.readings import Reading, Values

TopicName = Annotated[str, Field(pattern=r"^((/[A-Za-z_][A-Za-z0-9_]*)+)?$")]
"""A topic by its full name; empty for none."""

RequiredTopicName = Annotated[str, Field(pattern=r"^(/[A-Za-z_][A-Za-z0-9_]*)+$")]
"""A topic by its full name."""


class MsgType(str, Enum):
    """Supported ROS 2 interfaces, by name."""

    JOINT_STATES = "sensor_msgs/msg/JointState"
    ARRAY = "std_msgs/msg/Float64MultiArray"
    POSE = pose.POSE
    TWIST = pose.TWIST
    IMAGE = camera.IMAGE
    COMPRESSED = camera.COMPRESSED
    CAMERA_INFO = camera.CAMERA_INFO
    TRAJECTORY = trajectory.TRAJECTORY
    FLAG = "std_msgs/msg/Bool"
    TEXT = "std_msgs/msg/String"
    JOY = "sensor_msgs/msg/Joy"
    COUNT = "std_msgs/msg/UInt64"
    DIAGNOSTICS = "diagnostic_msgs/msg/DiagnosticArray"


IMAGES = frozenset({MsgType.IMAGE, MsgType.COMPRESSED})
"""Interfaces of images."""

STAMPED = IMAGES | {
    MsgType.JOINT_STATES,
    MsgType.POSE,
    MsgType.TWIST,
    MsgType.CAMERA_INFO,
    MsgType.JOY,
}
"""Interfaces with a time stamp in their header."""


def to_message(kind: MsgType, reading: Reading, dialect: MessageFactory) -> Any:
    """Return a reading as a message."""
    return _WRITE[kind](reading, dialect)


def to_reading(kind: MsgType, message: Any, stamp_s: float) -> Reading:
    """Return a message as a reading that arrived at ``stamp_s``.

    Raises:
        SpecError: Its parts do not agree, or the encoding is unknown.
    """
    fields, names = _READ[kind](message)
    return Reading(fields, names, stamp_s, sent_s=_sent_s(message))


def _sent_s(message: Any) -> float:
    """Return the time in the header; 0 without a header or a time."""
    stamp = getattr(getattr(message, "header", None), "stamp", None)
    return 0.0 if stamp is None else stamp.sec + 1e-9 * stamp.nanosec


def _write_joints(reading: Reading, dialect: MessageFactory) -> Any:
    none = np.zeros(0)
    fields = {f: reading.fields.get(f, none) for f in ("position", "velocity", "effort")}
    return dialect.message(MsgType.JOINT_STATES.value)(
        header=header(dialect, reading.stamp_s),
        name=list(reading.names),
        **{name: dialect.floats(value) for name, value in fields.items()},
    )


def _read_joints(message: Any) -> tuple[dict[str, Values], tuple[str, ...]]:
    found = {f: _array(getattr(message, f)) for f in ("position", "velocity", "effort")}
    return {name: value for name, value in found.items() if len(value)}, tuple(message.name)


def _write_array(reading: Reading, dialect: MessageFactory) -> Any:
    layout = dialect.message("std_msgs/msg/MultiArrayLayout")(dim=[], data_offset=0)
    data = dialect.floats(reading.fields["data"])
    return dialect.message(MsgType.ARRAY.value)(layout=layout, data=data)


def _read_array(message: Any) -> tuple[dict[str, Values], tuple[str, ...]]:
    return {"data": _array(message.data)}, ()


def _write_flag(reading: Reading, dialect: MessageFactory) -> Any:
    return dialect.message(MsgType.FLAG.value)(data=bool(reading.fields["data"]))


def _read_flag(message: Any) -> tuple[dict[str, Values], tuple[str, ...]]:
    return {"data": np.asarray(bool(message.data))}, ()


def _write_text(reading: Reading, dialect: MessageFactory) -> Any:
    return dialect.message(MsgType.TEXT.value)(data=str(reading.fields["data"]))


def _read_text(message: Any) -> tuple[dict[str, Values], tuple[str, ...]]:
    return {"data": np.asarray(message.data)}, ()


def _write_joy(reading: Reading, dialect: MessageFactory) -> Any:
    return dialect.message(MsgType.JOY.value)(
        header=header(dialect, reading.stamp_s),
        axes=dialect.numbers(np.asarray(reading.fields["axes"], np.float32)),
        buttons=dialect.numbers(np.asarray(reading.fields["buttons"], np.int32)),
    )


def _read_joy(message: Any) -> tuple[dict[str, Values], tuple[str, ...]]:
    return {"axes": _array(message.axes), "buttons": np.asarray(message.buttons, np.int32)}, ()


def _write_count(reading: Reading, dialect: MessageFactory) -> Any:
    return dialect.message(MsgType.COUNT.value)(data=int(reading.fields["data"]))


def _read_count(message: Any) -> tuple[dict[str, Values], tuple[str, ...]]:
    return {"data": np.asarray(message.data, np.uint64)}, ()


def _write_diagnostics(reading: Reading, dialect: MessageFactory) -> Any:
    status = reports.write(reading, dialect.message, dialect.octet)
    return dialect.message(MsgType.DIAGNOSTICS.value)(
        header=header(dialect, reading.stamp_s), status=status
    )


def _array(values: Sequence[float]) -> Values:
    return np.asarray(values, np.float64)


_WRITE: dict[MsgType, Callable[[Reading, MessageFactory], Any]] = {
    MsgType.JOINT_STATES: _write_joints,
    MsgType.ARRAY: _write_array,
    MsgType.POSE: pose.write_pose,
    MsgType.TWIST: pose.write_twist,
    MsgType.IMAGE: camera.write_image,
    MsgType.COMPRESSED: camera.write_compressed,
    MsgType.CAMERA_INFO: camera.write_info,
    MsgType.TRAJECTORY: trajectory.write_trajectory,
    MsgType.FLAG: _write_flag,
    MsgType.TEXT: _write_text,
    MsgType.JOY: _write_joy,
    MsgType.COUNT: _write_count,
    MsgType.DIAGNOSTICS: _write_diagnostics,
}
_READ: dict[MsgType, Callable[[Any], tuple[dict[str, Values], tuple[str, ...]]]] = {
    MsgType.JOINT_STATES: _read_joints,
    MsgType.ARRAY: _read_array,
    MsgType.POSE: pose.read_pose,
    MsgType.TWIST: pose.read_twist,
    MsgType.IMAGE: camera.read_image,
    MsgType.COMPRESSED: camera.read_compressed,
    MsgType.CAMERA_INFO: camera.read_info,
    MsgType.TRAJECTORY: trajectory.read_trajectory,
    MsgType.FLAG: _read_flag,
    MsgType.TEXT: _read_text,
    MsgType.JOY: _read_joy,
    MsgType.COUNT: _read_count,
    MsgType.DIAGNOSTICS: reports.read,
}
