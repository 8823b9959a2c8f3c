"""Bytes and names on the wire, by hand: what every ROS 2 node expects."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cyclonedds", reason="pip install 'robo-rl[dds]'")

from robo_rl.core.errors import ConfigError
from robo_rl_sim2real.messages.diagnostics import Level, Status, statuses_to_reading
from robo_rl_sim2real.messages.kinds import MsgType, to_message
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.transport.dds.codec import GID_BYTES, Codec
from robo_rl_sim2real.transport.warm_up import warm_up_type

# From the descriptions (share/*/msg/*.json) that Jazzy and Kilted install; the same in both.
HASHES = {
    MsgType.JOINT_STATES: "RIHS01_a13ee3a330e346c9d87b5aa18d24e11690752bd33a0350f11c5882bc9179260e",
    MsgType.ARRAY: "RIHS01_1025ddc6b9552d191f89ef1a8d2f60f3d373e28b283d8891ddcc974e8c55397f",
    MsgType.POSE: "RIHS01_10f3786d7d40fd2b54367835614bff85d4ad3b5dab62bf8bca0cc232d73b4cd8",
    MsgType.TWIST: "RIHS01_5f0fcd4f81d5d06ad9b4c4c63e3ea51b82d6ae4d0558f1d475229b1121db6f64",
    MsgType.IMAGE: "RIHS01_d31d41a9a4c4bc8eae9be757b0beed306564f7526c88ea6a4588fb9582527d47",
    MsgType.TRAJECTORY: "RIHS01_179b33eba59d676f6d967ac71fe35e7ca2f64b2f3928f4a018cec115e213796e",
    MsgType.FLAG: "RIHS01_feb91e995ff9ebd09c0cb3d2aed18b11077585839fb5db80193b62d74528f6c9",
    MsgType.TEXT: "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18",
    MsgType.JOY: "RIHS01_0d356c79cad3401e35ffeb75a96a96e08be3ef896b8b83841d73e890989372c5",
    MsgType.COMPRESSED: "RIHS01_15640771531571185e2efc8a100baf923961a4d15d5569652e6cb6691e8e371a",
    MsgType.CAMERA_INFO: "RIHS01_b3dfd68ff46c9d56c80fd3bd4ed22c7a4ddce8c8348f2f59c299e73118e7e275",
    MsgType.COUNT: "RIHS01_fbdc52018fc13755dce18024d1a671c856aa8b4aaf63adfb095b608f98e8c943",
    MsgType.DIAGNOSTICS: "RIHS01_5a8a36efb05fb25070fa0fb3810290c0e6cd4862b54a8fb975a1ee8dc55a333e",
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


def serialised(codec: Codec, kind: MsgType, reading: Reading) -> bytes:
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
    assert serialised(codec, MsgType.JOINT_STATES, joints) == by_hand.bytes
    array = Reading({"data": np.array([3.0])}, (), 0.0)
    assert (
        serialised(codec, MsgType.ARRAY, array) == Cdr().put("I", 0).put("I", 0).floats([3.0]).bytes
    )
    text = Reading({"data": np.asarray("hi")}, (), 0.0)
    assert serialised(codec, MsgType.TEXT, text) == Cdr().text("hi").bytes
    count = Reading({"data": np.asarray(2**63 + 1, np.uint64)}, (), 0.0)
    assert serialised(codec, MsgType.COUNT, count) == Cdr().put("Q", 2**63 + 1).bytes


def test_what_came_keeps_its_bytes():
    codec = Codec("jazzy")
    data = serialised(codec, MsgType.TEXT, Reading({"data": np.asarray("hi")}, (), 0.0))
    sample: Any = codec.wire_type(MsgType.TEXT.value).deserialize(data)
    assert (sample.wire, sample.message.data) == (data, "hi")


@pytest.mark.parametrize("distro", ["humble", "jazzy", "kilted"])
def test_bytes_of_diagnostics_by_hand(distro):
    said = statuses_to_reading([Status("a", Level.WARN, "slow", {"k": "v"})], "panda")
    by_hand = Cdr().put("i", 7).put("I", 8).text("").put("I", 1).put("B", 1)
    by_hand.text("a").text("slow").text("panda").put("I", 1).text("k").text("v")
    assert serialised(Codec(distro), MsgType.DIAGNOSTICS, said) == by_hand.bytes


@pytest.mark.parametrize("kind", list(MsgType))
@pytest.mark.parametrize("distro", ["humble", "jazzy", "kilted"])
def test_a_blank_message_of_every_type_can_be_packed(distro, kind):
    warm_up_type(Codec(distro).store, kind.value)


@pytest.mark.parametrize("distro", ["jazzy", "kilted"])
@pytest.mark.parametrize("kind", list(MsgType))
def test_type_hashes_are_those_of_ros(kind, distro):
    assert Codec(distro).type_hash(kind.value) == HASHES[kind]


def test_types_have_the_names_that_ros_gives_them():
    for kind in MsgType:
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
