"""Malformed packets at every port of a policy process, over DDS.

A third are random bytes, a third begin as RTPS does, and a third are truncated or bit-flipped
samples of a writer that the node subscribes to (OMG DDSI-RTPS 2.5, 8.3). A sample that decodes is
an ordinary reading. The packets come from this machine, because by default no other machine can
reach a node. Meanwhile the robot sends its true state.
"""

from __future__ import annotations

import itertools
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from _fault_processes import DOMAIN, PATIENCE_S, WanderingRobot, deployed
from _fault_stage import DT_S, JOINTS, NAMES, ROBOT, WANTED, contract
from _fault_table import TOLERANCE, TrialCounts
from cyclonedds.domain import DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.topic import Topic
from cyclonedds.util import duration

from robo_rl.bundle.bundle import Bundle
from robo_rl_sim2real.control.commands.contract import command_spec
from robo_rl_sim2real.messages.kinds import MsgType, to_message
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.transport.dds.codec import Codec

A_SECOND = 1000
AGAIN_S = 5.0
"""Time limit within which the node follows the policy again after a reset."""
PORTS = [7400 + 250 * DOMAIN + 10 + offset for offset in range(2, 16)]
"""Ports of the policy process and its watchdog, the first two, and some unused ones."""
HEADER = b"RTPS\x02\x04\x01\x10"


class PacketForger:
    """Sends forged packets in the name of a topic's writer; Cyclone itself sends only valid ones.

    Args:
        topic: Topic of the node.
        kind: Its interface.
        reading: Content of a valid sample.
    """

    def __init__(self, topic: str, kind: MsgType, reading: Reading) -> None:
        codec = Codec("jazzy")
        message = to_message(kind, reading, codec.dialect)
        self._good = bytes(codec.store.serialize_cdr(message, kind.value))
        self._participant = DomainParticipant(DOMAIN)
        named = Topic(self._participant, f"rt{topic}", codec.wire_type(kind.value))
        reliable = Policy.Reliability.Reliable(duration(seconds=1))  # reaches both kinds
        self._writer = DataWriter(self._participant, named, qos=Qos(reliable))
        until = time.monotonic() + PATIENCE_S
        while not self._writer.get_matched_subscriptions():
            time.sleep(0.05)
            if time.monotonic() > until:
                raise SystemExit(f"nobody listens to {topic}")
        self._number = 0

    def packet(self, rng: np.random.Generator) -> bytes:
        """Return a sample that is truncated or has up to eight flipped bits."""
        self._number += 1
        payload = bytearray(self._good)
        if rng.random() < 0.5:
            payload = payload[: rng.integers(len(payload))]
        else:
            for bit in rng.integers(8 * len(payload), size=rng.integers(1, 9)):
                payload[bit // 8] ^= 1 << (bit % 8)
        payload += bytes(-len(payload) % 4)
        guid = self._writer.guid.bytes
        data = struct.pack("<HH4s4siI", 0, 16, bytes(4), guid[12:], 0, self._number) + payload
        return HEADER + guid[:12] + struct.pack("<BBH", 0x15, 5, len(data)) + data


def packets(bundle: Bundle, first: int, number: int) -> TrialCounts:
    """Send packets to a policy that drives a robot; it must survive and stay within limits."""
    rng, robot = np.random.default_rng(first), WanderingRobot()
    with tempfile.TemporaryDirectory() as folder:
        policy = deployed(bundle, Path(folder), said=subprocess.DEVNULL)  # Cyclone reports each
        try:
            _moves(robot, policy, PATIENCE_S)
            _send(number, rng)
            alive, after_s = policy.poll() is None, _again(robot, policy)
        finally:
            policy.kill()
            policy.communicate()
            robot.close()
    over = _beyond(robot)
    broken = not alive or after_s > AGAIN_S or over > TOLERANCE
    worst = {"excess": over, "running again after s": after_s}
    return TrialCounts(number, int(broken), worst)


def _send(number: int, rng: np.random.Generator) -> None:
    zeros = np.zeros(len(NAMES))
    forgers = [
        PacketForger(JOINTS, MsgType.JOINT_STATES, Reading({"position": zeros}, NAMES, 0.0)),
        PacketForger(WANTED, MsgType.ARRAY, Reading({"data": zeros}, (), 0.0)),
        PacketForger(
            "/policy/control", MsgType.TEXT, Reading({"data": np.asarray("nothing")}, (), 0.0)
        ),
    ]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for i in range(number):
            noise = rng.bytes(int(rng.integers(1, 300)))
            forger = forgers[int(rng.integers(len(forgers)))]
            packet = (noise, HEADER + noise, forger.packet(rng))[i % 3]
            for port in PORTS:
                sock.sendto(packet, ("127.0.0.1", port))
            time.sleep(1.0 / A_SECOND)


def _again(robot: WanderingRobot, policy: subprocess.Popen[str]) -> float:
    """Return the seconds until the policy is followed again; a packet may have been a fault."""
    began_s = time.monotonic()
    say = robot.transport.create_publisher("/policy/control", MsgType.TEXT)
    while policy.poll() is None and time.monotonic() - began_s < PATIENCE_S:
        told = len(robot.sent)
        for request in ("reset", "activate"):
            say.send(Reading({"data": np.asarray(request)}, (), 0.0))
        time.sleep(10 * DT_S)
        recent = [pos for _, pos in robot.sent[told:]]
        if len(recent) > 4 and any((a != b).any() for a, b in itertools.pairwise(recent)):
            return time.monotonic() - began_s
    return PATIENCE_S


def _moves(robot: WanderingRobot, policy: subprocess.Popen[str], patience_s: float) -> None:
    until = time.monotonic() + patience_s
    while len(robot.sent) < 30:
        time.sleep(0.01)
        if policy.poll() is not None or time.monotonic() > until:
            raise SystemExit(f"the policy process did not move the robot: {policy.communicate()}")


def _beyond(robot: WanderingRobot) -> float:
    """Return by which fraction a command exceeds its range or the speed limit."""
    limits = command_spec(contract(), ROBOT).limits
    path = np.stack([pos for _, pos in robot.sent])
    if not np.isfinite(path).all():
        return np.inf
    out = float(np.maximum(limits.low - path, path - limits.high).max())
    return max(out, float((np.abs(np.diff(path, axis=0)) / DT_S / limits.velocity).max()) - 1.0)
