"""A simulated robot whose hand is commanded, and a node that commands it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_bundles import make_hand_bundle
from small_limits import excess

from robo_rl.config import strict
from robo_rl.registry import component, load
from robo_rl_sim2real.hand import HandPoses
from robo_rl_sim2real.messages import Kind
from robo_rl_sim2real.node import Node
from robo_rl_sim2real.readings import Reading
from robo_rl_sim2real.settings import Settings
from robo_rl_sim2real.sim_robot import SimRobot
from robo_rl_sim2real.sim_world import SimWorld
from robo_rl_sim2real.states import State
from robo_rl_sim2real.ticks import Clock
from robo_rl_sim2real.transport.base import COMMAND, SENSOR
from robo_rl_sim2real.transport.loopback import Bus, Loopback

DT_S = 0.01
ROBOT = load("robots", "panda")
HAND = HandPoses.of(ROBOT)
HOME = np.array([axis.home for axis in ROBOT.hand.axes])
ASIDE = np.array([-0.05, 0.1, -0.05, 0.1, -0.1, 0.3])
SETTINGS: dict[str, Any] = {
    "robot": {"name": "panda"},
    "observe": {"pos": {"topic": "/ee_pose", "kind": Kind.POSE.value, "field": "position"}},
    "lifecycle": {"ramp_s": 0.2},
}


class Lab:
    """A simulated panda in lift_cube, its hand commanded, on a clock of its own."""

    def __init__(self, **fields: Any) -> None:
        self.now_s = 10.0
        self.bus = Bus(lambda: self.now_s)
        self.clock = Clock(lambda: self.now_s, lambda s: None)
        task = component("tasks").make({"name": "lift_cube", "actions": "pose"}).build()
        backend = component("backends").make({"name": "mujoco_cpu", "threads": 1}).build()
        world, cfg = SimWorld(task, backend, DT_S), strict(fields, SimRobot.Config)
        self.robot = SimRobot(cfg, world, Loopback(self.bus), self.clock)
        self.us, self.topics = Loopback(self.bus), ROBOT.topics
        self.said = list[Reading]()
        self.us.subscribe(self.topics.hand, Kind.POSE, self.said.append, SENSOR)
        self.pose = self.us.advertise(self.topics.hand_pose, Kind.POSE, COMMAND)
        self.twist = self.us.advertise(self.topics.hand_twist, Kind.TWIST, COMMAND)

    def run(self, ticks: int) -> np.ndarray:
        """Where the hand was, (T, 6)."""
        before = len(self.said)
        for _ in range(ticks):
            self.robot.tick(self.now_s)
            self.now_s += DT_S
        return np.stack([HAND.numbers(reading, "/ee_pose") for reading in self.said[before:]])

    def deploy(self, path: Path, goal: np.ndarray, kind: str) -> Node:
        """A policy that wants the hand at goal (6,), and the gripper half open."""
        bundle = make_hand_bundle(path, ROBOT, np.append(goal, 0.02))
        settings = strict({**SETTINGS, "command": {"kind": kind, "alone": False}}, Settings)
        return Node(settings, bundle, Loopback(self.bus), clock=self.clock)


@pytest.fixture
def lab() -> Iterator[Lab]:
    made = Lab()
    yield made
    made.robot.close()


def test_it_goes_where_it_is_told_and_the_last_pose_stays(lab: Lab):
    still = lab.run(50)
    assert np.abs(still - still[0]).max() < 0.01
    lab.pose.send(HAND.pose(HOME + ASIDE))
    moved = lab.run(300)
    np.testing.assert_allclose(moved[-1], HOME + ASIDE, atol=2e-3)
    assert np.ptp(moved[-50:], axis=0).max() < 1e-3


def test_a_velocity_moves_it_until_it_is_not_heard_any_more(lab: Lab):
    lab.run(5)
    twist = {"linear": np.array([0.0, 0.1, 0.0]), "angular": np.array([0.0, 0.0, 0.2])}
    lab.run(5)
    before = lab.robot.world.targets
    for _ in range(10):  # 0.05 s apart: in time
        lab.twist.send(Reading(twist, (), 0.0))
        lab.run(5)
    lab.run(100)
    moved = [lab.robot.world.targets[name] - before[name] for name in HAND.names]
    spans = 0.5 + 0.05  # and for as long as the last one counts
    assert moved[1] == pytest.approx(0.1 * spans, abs=0.1 * 2 * DT_S)
    assert np.abs(np.delete(moved[:3], 1)).max() < 1e-9
    np.testing.assert_allclose(lab.run(100)[-1][1], before["ee_y"] + moved[1], atol=2e-3)


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("frame", np.asarray("camera"), "expected panda_link0, found camera"),
        ("position", np.full(3, np.nan), "not finite"),
        ("orientation", np.zeros(4), "no orientation"),
    ],
)
def test_what_no_controller_would_take_is_dropped_and_told(lab: Lab, field, value, problem):
    before = lab.run(20)[-1]
    said = HAND.pose(HOME + ASIDE)
    lab.pose.send(said._replace(fields={**said.fields, field: value}))
    np.testing.assert_allclose(lab.run(50)[-1], before, atol=5e-3)
    assert problem in lab.robot.problem


@pytest.mark.parametrize("kind", ["pose", "twist"])
def test_a_node_drives_it(tmp_path: Path, lab: Lab, kind: str):
    """Three seconds to another pose, within all limits, in lock-step; the gripper goes halfway."""
    node, sent = lab.deploy(tmp_path / "bundle", HOME + ASIDE, kind), list[np.ndarray]()
    for tick in range(400):
        lab.robot.tick(lab.now_s)
        if tick == 10:
            node.request("activate")
        if tick % 5 == 0 and (command := node.tick(tick // 5).command) is not None:
            sent.append(command.pos)
        lab.now_s += DT_S
    assert node.runtime.state is State.RUNNING
    # Velocities add up as they came, so that what is lost or doubled stays.
    near = 2e-3 if kind == "pose" else 2e-2
    np.testing.assert_allclose(HAND.numbers(lab.said[-1], "/ee_pose"), HOME + ASIDE, atol=near)
    assert lab.robot.world.joint_positions()["panda_finger_joint1"] == pytest.approx(0.02, abs=2e-3)
    assert excess(np.stack(sent), node.runtime.parts.safety.limits) < 1e-6
    node.close()


def test_a_pose_in_another_frame_is_no_reading(tmp_path: Path, lab: Lab):
    node = lab.deploy(tmp_path / "bundle", HOME, "pose")
    lab.run(5)
    mapped = lab.said[-1]._replace(fields={**lab.said[-1].fields, "frame": np.asarray("map")})
    node.inbox.put("/ee_pose", mapped._replace(stamp_s=lab.now_s))
    node.request("activate")
    node.tick(1)
    assert node.runtime.state is State.INACTIVE
    assert "expected panda_link0, found map" in node.health.problem
    node.close()
