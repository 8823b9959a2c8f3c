"""Encodes items as messages of standard ROS interfaces.

Shapes: n joints, H actions of a chunk.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from robo_rl_sim2real.control.events import Tick
from robo_rl_sim2real.messages.kinds import MsgType, to_message
from robo_rl_sim2real.messages.readings import Reading, Values
from robo_rl_sim2real.messages.rosbags_types import message_factory, type_store
from robo_rl_sim2real.recording import topics
from robo_rl_sim2real.recording.items import EventItem, HealthItem, Item, MessageItem

DIAGNOSTICS = "diagnostic_msgs/msg/DiagnosticArray"


class EncodedMessage(NamedTuple):
    """A message of a bag: topic, interface, time in ns (see ``topics``), and CDR bytes."""

    topic: str
    interface: str
    time_ns: int
    cdr: bytes


class ClockOrigin(NamedTuple):
    """One moment on two clocks: monotonic, in s, and wall clock, in ns."""

    clock_s: float
    wall_ns: int

    def to_wall_ns(self, stamp_s: float) -> int:
        """Return the wall-clock time of a monotonic time, without later wall-clock resets."""
        return self.wall_ns + round((stamp_s - self.clock_s) * 1e9)


class MessageEncoder:
    """Encodes items as messages, one after the other.

    Args:
        about: JSON for ``topics.RUN``.
        names: (n,) joints.
        origin: Origin of the clocks.
        distro: ROS 2 distribution of the interfaces.
    """

    def __init__(
        self,
        about: dict[str, Any],
        names: tuple[str, ...],
        origin: ClockOrigin,
        distro: str = "jazzy",
    ) -> None:
        self.store, self.origin, self._names = type_store(distro), origin, names
        self._dialect = message_factory(self.store)
        self._about, self._state, self._problem = about, "", ""

    def about(self) -> EncodedMessage:
        """Return the message with the metadata of the recording."""
        return self._text(topics.RUN, self.origin.clock_s, self._about)

    def messages(self, item: Item) -> Iterator[EncodedMessage]:
        """Yield the messages of an item."""
        if isinstance(item, MessageItem):
            yield self._heard(item)
        elif isinstance(item, EventItem):
            yield self._event(item.stamp_s, item.event, item.what)
        elif isinstance(item, HealthItem):
            yield self._diagnostics(item)
        else:
            yield from self._tick(item)

    def _heard(self, item: MessageItem) -> EncodedMessage:
        reading, at_ns = item.reading, self.origin.to_wall_ns(item.reading.stamp_s)
        if reading.wire:
            return EncodedMessage(item.topic, item.kind.value, at_ns, reading.wire)
        message = to_message(item.kind, reading, self._dialect)
        if hasattr(message, "header"):  # the sender's, as it came
            frame = str(reading.fields.get("frame", ""))
            message.header = self._header(round(reading.sent_s * 1e9), frame)
        return self._packed(item.topic, item.kind.value, at_ns, message)

    def _tick(self, tick: Tick) -> Iterator[EncodedMessage]:
        output, at_s = tick.output, tick.began_s
        yield self._text(topics.TICK, at_s, tick_fields(tick, self.origin))
        if output.chunk is not None:
            yield self._array(topics.CHUNK, at_s, output.chunk.act, ("action", "joint"))
        if output.target is not None:
            yield self._joints(topics.ASKED, at_s, output.target)
        if output.command is not None and tick.sent:
            yield self._joints(topics.SENT, at_s, output.command.pos)
        if output.command is not None and output.target is not None:
            yield self._array(topics.CLAMPED, at_s, output.command.clamped, ("joint",))
        yield from self._changes(tick)

    def _changes(self, tick: Tick) -> Iterator[EncodedMessage]:
        """Yield the changes since the previous tick."""
        state, problem = tick.output.state.value, tick.output.problem
        if state != self._state:
            yield self._event(tick.began_s, "state", state)
        if problem and problem != self._problem:
            yield self._event(tick.began_s, "problem", problem)
        self._state, self._problem = state, problem

    def _event(self, at_s: float, event: str, what: str) -> EncodedMessage:
        return self._text(topics.EVENT, at_s, {"event": event, "what": what})

    def _text(self, topic: str, at_s: float, fields: dict[str, Any]) -> EncodedMessage:
        data = np.asarray(json.dumps(fields, allow_nan=False))
        return self._message(topic, MsgType.TEXT, at_s, Reading({"data": data}, (), at_s))

    def _joints(self, topic: str, at_s: float, position: Values) -> EncodedMessage:
        reading = Reading({"position": position}, self._names, at_s)
        return self._message(topic, MsgType.JOINT_STATES, at_s, reading)

    def _message(self, topic: str, kind: MsgType, at_s: float, reading: Reading) -> EncodedMessage:
        message, at_ns = to_message(kind, reading, self._dialect), self.origin.to_wall_ns(at_s)
        if hasattr(message, "header"):
            message.header = self._header(at_ns)
        return self._packed(topic, kind.value, at_ns, message)

    def _header(self, at_ns: int, frame: str = "") -> Any:
        make, (sec, nanosec) = self._dialect.message, divmod(at_ns, 1_000_000_000)
        stamp = make("builtin_interfaces/msg/Time")(sec=sec, nanosec=nanosec)
        return make("std_msgs/msg/Header")(stamp=stamp, frame_id=frame)

    def _packed(self, topic: str, interface: str, at_ns: int, message: Any) -> EncodedMessage:
        return EncodedMessage(
            topic, interface, at_ns, bytes(self.store.serialize_cdr(message, interface))
        )

    def _array(
        self, topic: str, at_s: float, data: Values, labels: tuple[str, ...]
    ) -> EncodedMessage:
        """Return an array message with its shape, which a plain reading does not have."""
        make, sizes = self._dialect.message, data.shape
        dim = [
            make("std_msgs/msg/MultiArrayDimension")(
                label=label, size=size, stride=int(np.prod(sizes[i:]))
            )
            for i, (label, size) in enumerate(zip(labels, sizes, strict=True))
        ]
        layout = make("std_msgs/msg/MultiArrayLayout")(dim=dim, data_offset=0)
        message = make(MsgType.ARRAY.value)(layout=layout, data=self._dialect.floats(data.ravel()))
        return self._packed(topic, MsgType.ARRAY.value, self.origin.to_wall_ns(at_s), message)

    def _diagnostics(self, item: HealthItem) -> EncodedMessage:
        make, at_ns = self._dialect.message, self.origin.to_wall_ns(item.stamp_s)
        health = item.health
        pair = make("diagnostic_msgs/msg/KeyValue")
        status = make("diagnostic_msgs/msg/DiagnosticStatus")(
            level=int(bool(health.get("problem"))),
            name="robo_rl: policy",
            message=str(health.get("problem", "")),
            hardware_id="",
            values=[pair(key=key, value=str(value)) for key, value in health.items()],
        )
        message = make(DIAGNOSTICS)(header=self._header(at_ns), status=[status])
        return self._packed(topics.HEALTH, DIAGNOSTICS, at_ns, message)


def tick_fields(tick: Tick, origin: ClockOrigin) -> dict[str, Any]:
    """Return the recorded fields of a control period.

    ``tick``: number of the period; missing numbers are missed periods. ``state``: state after it.
    ``reason``: why its command brings the robot to rest, empty while it follows the policy. ``by``:
    source of the command. ``observed_ns``: arrival time of the oldest reading in use. ``chunk``: if
    a chunk arrived, the tick of its first action and the arrival time of its oldest reading.
    ``instruction``: the words that the command follows, if the policy reads an instruction.
    """
    output, command = tick.output, tick.output.command
    fields: dict[str, Any] = {
        "tick": tick.number,
        "state": output.state.value,
        "reason": command.reason.value if command is not None and command.reason else "",
        "by": tick.source.value,
        "spent_s": tick.spent_s,
        "observed_ns": _wall(origin, tick.observed_s),
    }
    if output.instruction:
        fields["instruction"] = output.instruction
    if output.chunk is not None:
        chunk = output.chunk
        observed_ns = _wall(origin, chunk.observed_s)
        fields["chunk"] = {"tick": chunk.observed_tick, "observed_ns": observed_ns}
    return fields


def _wall(origin: ClockOrigin, stamp_s: float) -> int | None:
    return origin.to_wall_ns(stamp_s) if np.isfinite(stamp_s) else None
