"""A policy that drives a robot on a clock of its own, recorded."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from small_bundles import make_bundle, with_items

from robo_rl.bundle.bundle import Bundle
from robo_rl.config.models import validate_strict
from robo_rl.config.registry import load
from robo_rl.core.spec import TensorSpec
from robo_rl_sim2real.core.clock import Clock
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.node.node import Node
from robo_rl_sim2real.node.recorded_run import recording_node
from robo_rl_sim2real.node.settings import DeploySettings
from robo_rl_sim2real.recording.recorder import FlightRecorder
from robo_rl_sim2real.transport.base import COMMAND
from robo_rl_sim2real.transport.loopback import Bus, Loopback

ROBOT = load("robots", "panda")
HOME = ROBOT.home_ctrl
NAMES = tuple(joint.name for joint in ROBOT.actuated_joints)
DT_S = 1.0 / ROBOT.rates.control_hz
WATCHED = 4

TELEOP = {
    "topic": "/joy",
    "msg_type": "sensor_msgs/msg/Joy",
    "deadman_button": 0,
    "joints": {NAMES[0]: {"axis": 0, "scale": 0.1}},
}


def settings(observe: dict[str, Any] | None = None, **record: Any) -> DeploySettings:
    """Ready in 0.2 s, recorded in full."""
    return validate_strict(
        {
            "robot": {"name": "panda"},
            "observe": {
                "pos": {"topic": "/joint_states", "field": "position"},
                **(observe or {}),
            },
            "lifecycle": {"ramp_s": 0.2, "resume_s": 0.0},
            "teleop": TELEOP,
            "record": {"mode": "full", "min_free_mb": 0, **record},
        },
        DeploySettings,
    )


class Flight:
    """A panda that is where it was last told to be, and a node with a recorder.

    Args:
        path: Folder of the bundle; recordings go to ``path / "recordings"``.
        offset: How far the policy drives every joint on in a tick.
        items: What else the policy is shown.
        bundle: The policy, if not that of ``make_bundle``.
        record: Of the recorder, and what it is shown from where as ``observe``.

    While ``held`` is set, a human has the robot.
    """

    def __init__(
        self,
        path: Path,
        *,
        offset: float = 0.002,
        dry_run: bool = False,
        items: dict[str, TensorSpec] | None = None,
        bundle: Bundle | None = None,
        **record: Any,
    ) -> None:
        self.now_s, self.number = 50.0, 0
        self.bus = Bus(lambda: self.now_s)
        robot = Loopback(self.bus)
        self.joints = robot.create_publisher("/joint_states", MsgType.JOINT_STATES)
        self.outcome = robot.create_publisher("/sim/episode", MsgType.TEXT)
        self.estop = robot.create_publisher("/estop", MsgType.FLAG)
        self.joy = robot.create_publisher("/joy", MsgType.JOY)
        self.held = False
        self.commands, self.pos = list[Reading](), ROBOT.home_ctrl.copy()
        robot.subscribe(ROBOT.topics.command, MsgType.ARRAY, self.commands.append, COMMAND)
        bundle = bundle or make_bundle(path / "bundle", ROBOT, offset)
        self.bundle = with_items(path / "shown", bundle, **items) if items else bundle
        self.settings = settings(**{"folder": str(path / "recordings"), **record})
        self.node = Node(
            self.settings,
            self.bundle,
            Loopback(self.bus),
            clock=Clock(lambda: self.now_s, lambda s: None),
            dry_run=dry_run,
        )
        self.run(WATCHED)

    @contextmanager
    def recorded(self) -> Generator[FlightRecorder]:
        """While it is recorded."""
        with recording_node(self.node, self.bundle, self.settings) as recorder:
            assert recorder is not None
            yield recorder
        self.node.close()

    def run(self, ticks: int, *, silent: bool = False) -> None:
        """Several control periods."""
        for _ in range(ticks):
            buttons = np.array([self.held], np.int32)
            self.joy.send(Reading({"axes": np.array([0.3]), "buttons": buttons}, (), 0.0))
            if not silent:
                self.joints.send(Reading({"position": self.pos[::-1]}, NAMES[::-1], 0.0))
            self.number += 1
            self.node.tick(self.number)
            if self.commands:
                self.pos = self.commands[-1].fields["data"]
            self.now_s += DT_S

    def say(self, text: str) -> None:
        """What became of an episode, as JSON."""
        self.outcome.send(Reading({"data": np.asarray(text)}, (), 0.0))

    def press(self, pressed: bool) -> None:
        """The emergency stop."""
        self.estop.send(Reading({"data": np.asarray(pressed)}, (), 0.0))


def sent_of(flight: Flight) -> np.ndarray:
    """(T, n) all that the robot was told, in the order of the policy's actions."""
    return np.stack([command.fields["data"] for command in flight.commands])
