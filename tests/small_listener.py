"""A robot over DDS that is where it was told to be, and remembers what it was told and when."""

from __future__ import annotations

import threading
import time

import numpy as np
from numpy.typing import NDArray

from robo_rl.api.robot import Robot
from robo_rl_sim2real.messages.ee_pose import EePoseAxes
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.transport.base import LATCHED, SENSOR, Qos
from robo_rl_sim2real.transport.dds.transport import Dds


class Listener:
    """See above; times are of the machine's monotonic clock.

    Args:
        robot: Whose topics and home it has.
        domain: ROS_DOMAIN_ID.
        hand: Whether its hand is commanded; what it is told are the hand's six numbers then, and
            apart from them those of the gripper.
    """

    def __init__(self, robot: Robot, domain: int, *, hand: bool = False) -> None:
        self.names = tuple(joint.name for joint in robot.actuated_joints)
        self.pos, self.sent = robot.home_ctrl.copy(), list[tuple[float, NDArray[np.float64]]]()
        self.states = list[str]()
        self.transport = Dds(Dds.Config(domain=domain), "robot")
        self._joints = self.transport.create_publisher(
            robot.topics.joint_states, MsgType.JOINT_STATES, SENSOR
        )
        self.grips, self._hand = list[NDArray[np.float64]](), EePoseAxes.of(robot)
        self._pose = self.transport.create_publisher(robot.topics.ee_pose, MsgType.POSE, SENSOR)
        self.at = (
            np.array([axis.home for axis in robot.end_effector.axes])
            if robot.end_effector
            else np.zeros(0)
        )
        for topic, kind, obey in (
            (
                (robot.topics.ee_pose_command, MsgType.POSE, self._obey_pose),
                (robot.topics.gripper_command, MsgType.ARRAY, self._obey_grip),
            )
            if hand
            else ((robot.topics.command, MsgType.ARRAY, self._obey),)
        ):
            self.transport.subscribe(topic, kind, obey, Qos(depth=100))
        self.transport.subscribe("/policy/state", MsgType.TEXT, self._hear, LATCHED)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._measure, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Leave."""
        self._over.set()
        self._thread.join()
        self.transport.close()

    def wait(self, commands: int, patience_s: float = 60.0) -> None:
        """Until so many came."""
        until = time.monotonic() + patience_s
        while len(self.sent) < commands and time.monotonic() < until:
            time.sleep(0.005)
        assert len(self.sent) >= commands

    def since(self, at_s: float) -> list[tuple[float, NDArray[np.float64]]]:
        """What came after that moment."""
        return [(came_s, pos) for came_s, pos in self.sent if came_s > at_s]

    def _obey(self, reading: Reading) -> None:
        self.pos = reading.fields["data"]
        self.sent.append((reading.stamp_s, self.pos))

    def _obey_pose(self, reading: Reading) -> None:
        self.at = self._hand.numbers(reading, "pose")
        self.sent.append((reading.stamp_s, self.at))

    def _obey_grip(self, reading: Reading) -> None:
        self.grips.append(reading.fields["data"])

    def _hear(self, reading: Reading) -> None:
        self.states.append(str(reading.fields["data"]))

    def _measure(self) -> None:
        while not self._over.wait(0.01):
            self._joints.send(Reading({"position": self.pos}, self.names, 0.0))
            self._pose.send(self._hand.pose(self.at))
