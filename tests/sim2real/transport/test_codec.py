"""Bytes and names on the wire, by hand: what every ROS 2 node expects."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cyclonedds", reason="pip install 'robo-rl[dds]'")

from robo_rl.errors import ConfigError
from robo_rl_sim2real.messages import Kind, to_message
from robo_rl_sim2real.readings import Reading
from robo_rl_sim2real.transport.codec import GID_BYTES, Codec

# As `ros2 topic info --verbose` prints them on Jazzy.
HASHES = {
    Kind.TEXT: "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18",
    Kind.JOINT_STATES: "RIHS01_a13ee3a330e346c9d87b5aa18d24e11690752bd33a0350f11c5882bc9179260e",
}


class Cdr:
    """OMG CDR, little endian, as ROS has it: numbers aligned to their size behind the header."""

    def __init__(self) -> None:
        self.body = b""

    def put(self, code: str, value: float) -> Cdr:
        size = struct.calcsize(code)
        self.body += b"\0" * (-len(self.body) % size) + struct.pack(f"<{code}", value)
        return self

    def text(self, value: str) -> Cdr:
        self.put("I", len(value) + 1)
        self.body += value.encode() + b"\0"
        return self

    def floats(self, values: list[float]) -> Cdr:
        self.put("I", len(values))
        for value in values:
            self.put("d", value)
        return self

    @property
    def bytes(self) -> bytes:
        return b"\0\1\0\0" + self.body


def serialised(codec: Codec, kind: Kind, reading: Reading) -> bytes:
    message = to_message(kind, reading, codec.dialect)
    if hasattr(message, "header"):
        message.header.stamp.sec, message.header.stamp.nanosec = 7, 8
    return codec.wrap(kind.value, message).serialize()


@pytest.mark.parametrize("distro", ["humble", "jazzy", "kilted"])
def test_bytes_by_hand(distro):
    codec = Codec(distro)
    joints = Reading(
        {"position": np.array([0.5, -1.0]), "velocity": np.array([2.0])}, ("a", "bcd"), 0.0
    )
    by_hand = Cdr().put("i", 7).put("I", 8).text("").put("I", 2).text("a").text("bcd")
    by_hand.floats([0.5, -1.0]).floats([2.0]).floats([])
    assert serialised(codec, Kind.JOINT_STATES, joints) == by_hand.bytes
    array = Reading({"data": np.array([3.0])}, (), 0.0)
    assert serialised(codec, Kind.ARRAY, array) == Cdr().put("I", 0).put("I", 0).floats([3.0]).bytes
    text = Reading({"data": np.asarray("hi")}, (), 0.0)
    assert serialised(codec, Kind.TEXT, text) == Cdr().text("hi").bytes


def test_what_came_keeps_its_bytes():
    codec = Codec("jazzy")
    data = serialised(codec, Kind.TEXT, Reading({"data": np.asarray("hi")}, (), 0.0))
    sample: Any = codec.wire_type(Kind.TEXT.value).deserialize(data)
    assert (sample.wire, sample.message.data) == (data, "hi")


@pytest.mark.parametrize(("kind", "expected"), HASHES.items())
def test_type_hashes_are_those_of_ros(kind, expected):
    assert Codec("jazzy").type_hash(kind.value) == expected


def test_types_have_the_names_that_ros_gives_them():
    for kind in Kind:
        package, _, name = kind.value.split("/")
        wire = Codec("jazzy").wire_type(kind.value)
        assert wire.__idl__.idl_transformed_typename == f"{package}::msg::dds_::{name}_"


def test_identifiers_are_as_long_as_the_distribution_says():
    for distro, size in GID_BYTES.items():
        (_, (_, ((_, (base, _)), length))) = Codec(distro).store.fielddefs[
            "rmw_dds_common/msg/Gid"
        ][1][0]
        assert (base, length) == ("char", size)


def test_a_distribution_that_is_not_known_is_refused():
    with pytest.raises(ConfigError, match="did you mean 'jazzy'"):
        Codec("jazy")
