"""A simulated robot whose hand is commanded, and a node that commands it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_lab
from small_bundles import make_hand_bundle
from small_lab import DT_S
from small_limits import excess

from robo_rl.bundle.bundle import Bundle
from robo_rl.cli.main import main
from robo_rl.config.component import component
from robo_rl.config.models import validate_strict
from robo_rl.config.registry import load
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl_sim2real.check.check_result import CheckResult, Severity
from robo_rl_sim2real.check.survey import survey
from robo_rl_sim2real.cli.check import RULES
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.ee_pose import EePoseAxes
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.node.node import Node
from robo_rl_sim2real.node.recorded_run import recording_node
from robo_rl_sim2real.node.settings import DeploySettings
from robo_rl_sim2real.recording import topics
from robo_rl_sim2real.transport.base import COMMAND, SENSOR, Publisher
from robo_rl_sim2real.transport.loopback import Loopback
from robo_rl_sim2real.watchdog.guard import Unguarded

ROBOT = load("robots", "panda")
HAND = EePoseAxes.of(ROBOT)
HOME = np.array([axis.home for axis in ROBOT.end_effector.axes])
WATCHED = 5
ASIDE = np.array([-0.05, 0.1, -0.05, 0.1, -0.1, 0.3])


class Lab(small_lab.Lab):
    """Its hand is commanded, or its joints are."""

    def __init__(self, actions: str = "pose") -> None:
        super().__init__({"name": "lift_cube", "actions": actions})
        self.said = list[Reading]()
        self.us.subscribe(self.topics.ee_pose, MsgType.POSE, self.said.append, SENSOR)

    @cached_property
    def pose(self) -> Publisher:
        """Who else commands it: nobody does until it is asked for."""
        return self.us.create_publisher(self.topics.ee_pose_command, MsgType.POSE, COMMAND)

    @cached_property
    def twist(self) -> Publisher:
        """Likewise."""
        return self.us.create_publisher(self.topics.ee_twist_command, MsgType.TWIST, COMMAND)

    def run(self, ticks: int) -> np.ndarray:
        """Where the hand was, (T, 6)."""
        before = len(self.said)
        for _ in range(ticks):
            self.tick()
        return np.stack([HAND.numbers(reading, "/ee_pose") for reading in self.said[before:]])

    def deploy(self, path: Path, goal: np.ndarray, kind: str) -> Node:
        """A policy that wants the hand at goal (6,), and the gripper half open."""
        settings = settings_of(command={"kind": kind, "exclusive": False})
        return Node(settings, bundle_of(path, goal), Loopback(self.bus), clock=self.clock)

    def check(self, path: Path) -> dict[str, CheckResult]:
        """Subject → what ``deploy check`` finds; the worst where there are several."""
        bundle = bundle_of(path, HOME)
        facts = survey(settings_of(), bundle, lambda: Loopback(self.bus), 2.0, self.clock)
        found = [finding for rule in RULES for finding in rule(facts)]
        return {f.subject: f for f in sorted(found, key=lambda f: list(Severity).index(f.severity))}


def bundle_of(path: Path, goal: np.ndarray) -> Bundle:
    return make_hand_bundle(path, ROBOT, np.append(goal, 0.02))


def settings_of(**fields: Any) -> DeploySettings:
    observe = {"pos": {"topic": "/ee_pose", "msg_type": MsgType.POSE.value, "field": "position"}}
    common = {"robot": {"name": "panda"}, "observe": observe, "lifecycle": {"ramp_s": 0.2}}
    return validate_strict({**common, **fields}, DeploySettings)


@pytest.fixture
def lab() -> Iterator[Lab]:
    made = Lab()
    yield made
    made.close()


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
    node = lab.deploy(tmp_path / "bundle", HOME + ASIDE, kind)
    lab.drive(node, WATCHED)
    node.request("activate")
    sent = [output.command.pos for output in lab.drive(node, 78) if output.command is not None]
    assert node.runtime.state is State.RUNNING
    # Velocities add up as they came, so that what is lost or doubled stays.
    near = 2e-3 if kind == "pose" else 2e-2
    np.testing.assert_allclose(HAND.numbers(lab.said[-1], "/ee_pose"), HOME + ASIDE, atol=near)
    assert lab.robot.world.joint_positions()["panda_finger_joint1"] == pytest.approx(0.02, abs=2e-3)
    assert excess(np.stack(sent), node.runtime.parts.safety.limits) < 1e-6
    node.close()


def test_after_its_watchdog_said_zero_velocity_it_begins_anew(tmp_path: Path, lab: Lab):
    node = lab.deploy(tmp_path / "bundle", HOME + ASIDE, "twist")
    heard = list[Reading]()
    lab.us.subscribe(lab.topics.ee_twist_command, MsgType.TWIST, heard.append, COMMAND)
    lab.drive(node, WATCHED)
    node.request("activate")
    lab.drive(node, 3)
    node.guard = stood = Stood()
    lab.drive(node, 1)
    stood.stood = False
    lab.drive(node, 3)
    speeds = [np.abs(twist.fields["linear"]).max() for twist in heard[-5:]]
    node.close()
    assert speeds[0] > 0.1
    assert speeds[1] == 0.0
    assert speeds[2] > 0.1


class Stood(Unguarded):
    """A watchdog that has commanded zero velocities."""

    stood = True

    def has_stood(self) -> bool:
        return self.stood


def test_a_node_adds_up_what_a_policy_of_changes_wants(tmp_path: Path):
    """The robot of a task of changes takes targets; the policy's contract is that task's."""
    lab = Lab("pose_delta")
    spec = component("tasks").make({"name": "lift_cube", "actions": "pose_delta"}).build().act_spec
    change = np.array([0.0, 0.002, -0.001, 0.0, 0.0, 0.004, 0.02])
    fields = {"low": spec.low, "high": spec.high, "reference": spec.reference}
    bundle = make_hand_bundle(tmp_path / "bundle", ROBOT, change, **fields)
    settings = settings_of(command={"kind": "pose", "exclusive": False})
    node = Node(settings, bundle, Loopback(lab.bus), clock=lab.clock)
    lab.drive(node, WATCHED)
    node.request("activate")
    outputs = lab.drive(node, 50)
    assert node.runtime.state is State.RUNNING
    sent = np.stack([output.command.pos for output in outputs if output.command is not None])
    steps = np.diff(sent[-20:], axis=0)
    np.testing.assert_allclose(steps[:, [1, 2, 5]], np.tile(change[[1, 2, 5]], (19, 1)), atol=1e-5)
    np.testing.assert_allclose(sent[-1, 6], 0.02, atol=1e-6)
    moved = HAND.numbers(lab.said[-1], "/ee_pose")
    np.testing.assert_allclose(moved[[1, 2]], sent[-1, [1, 2]], atol=0.01)
    assert excess(sent, node.runtime.parts.safety.limits) < 1e-6
    node.close()
    lab.close()


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


def test_a_robot_whose_hand_takes_poses_passes_the_check_and_hears_no_command(
    tmp_path: Path, lab: Lab
):
    found = lab.check(tmp_path / "bundle")
    assert {finding.severity for finding in found.values()} == {Severity.OK}, found
    assert {lab.topics.ee_pose_command, lab.topics.gripper_command, "/ee_pose"} <= found.keys()
    lab.run(1)
    assert lab.robot.world.positions()["ee_x"] == pytest.approx(HOME[0], abs=0.02)


def test_one_whose_joints_are_commanded_does_not(tmp_path: Path):
    lab = Lab("joints")
    found = lab.check(tmp_path / "bundle")
    assert {s for s, f in found.items() if f.severity is Severity.FAILED} == {
        *(lab.topics.ee_pose_command, lab.topics.gripper_command)
    }
    lab.close()


def test_what_is_recorded_of_it_is_what_was_sent_and_becomes_actions(tmp_path: Path, lab: Lab):
    pytest.importorskip("rosbags", reason="pip install 'robo-rl[dds]'")
    from rosbags.highlevel import AnyReader

    record = {"mode": "full", "folder": str(tmp_path / "bags"), "min_free_mb": 0}
    settings = settings_of(command={"kind": "pose", "exclusive": False}, record=record)
    bundle = bundle_of(tmp_path / "bundle", HOME + ASIDE)
    node = Node(settings, bundle, Loopback(lab.bus), clock=lab.clock)
    with recording_node(node, bundle, settings) as recorder:
        lab.drive(node, WATCHED)
        node.request("activate")
        outputs = lab.drive(node, 60)
    node.close()
    sent = np.stack([output.command.pos for output in outputs if output.command is not None])
    assert recorder is not None
    with AnyReader([recorder.bags[0]]) as reader:
        ways = [way for way in reader.connections if way.topic == topics.SENT]
        said: list[Any] = [
            reader.deserialize(cdr, way.msgtype) for way, _, cdr in reader.messages(ways)
        ]
    assert said[0].name == [*HAND.names, ROBOT.actuated_joints[-1].name]
    np.testing.assert_array_equal(np.stack([message.position for message in said]), sent)
    words = ["data", "convert", str(tmp_path / "bags"), "--out", str(tmp_path / "d.zarr")]
    assert main([*words, "assume_success=true"]) == 0
    act = ZarrStore.open(tmp_path / "d.zarr").read()["act"]
    windows = np.lib.stride_tricks.sliding_window_view(sent.astype(np.float32), act.shape, (0, 1))
    assert len(act) > 30
    assert (windows == act).all(axis=(2, 3)).any()  # so many in a row, bit by bit
