"""A simulated robot behind the topics of the real one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_lab
from small_bundles import make_bundle
from small_lab import DT_S, world_of
from small_limits import excess

from robo_rl.config.models import validate, validate_strict
from robo_rl.core.errors import ConfigError
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.node.node import Node
from robo_rl_sim2real.node.settings import DeploySettings
from robo_rl_sim2real.simulated.robot import SimRobot
from robo_rl_sim2real.transport.base import COMMAND, LATCHED, SENSOR
from robo_rl_sim2real.transport.loopback import Loopback


class Lab(small_lab.Lab):
    """What it says, and what it can be told."""

    def __init__(self, task: str = "reach", **fields: Any) -> None:
        super().__init__(task, **fields)
        self.joints, self.poses = list[Reading](), list[Reading]()
        self.told: list[dict[str, Any]] = []
        self.us.subscribe(
            self.topics.joint_states, MsgType.JOINT_STATES, self.joints.append, SENSOR
        )
        self.us.subscribe("/ee_pose", MsgType.POSE, self.poses.append, SENSOR)
        self.us.subscribe("/sim/episode", MsgType.TEXT, self._hear, LATCHED)
        self.array = self.us.create_publisher(self.topics.command, MsgType.ARRAY, COMMAND)
        self.points = self.us.create_publisher(self.topics.trajectory, MsgType.TRAJECTORY, COMMAND)
        self.control = self.us.create_publisher("/sim/control", MsgType.TEXT, COMMAND)

    def run(self, ticks: int) -> np.ndarray:
        """Measured positions (T, joints)."""
        before = len(self.joints)
        for _ in range(ticks):
            self.tick()
        return np.stack([r.fields["position"] for r in self.joints[before:]])

    def say(self, data: list[float]) -> None:
        self.array.send(Reading({"data": np.array(data)}, (), 0.0))

    def _hear(self, reading: Reading) -> None:
        self.told.append(json.loads(str(reading.fields["data"])))


@pytest.mark.parametrize(
    ("rate_hz", "nearest"), [(100_000.0, "200"), (70.0, "66.66666667"), (1 / 0.007, "100")]
)
def test_a_rate_that_the_physics_cannot_have_is_told_in_its_own_unit(rate_hz: float, nearest: str):
    said = f"rate_hz: .* expected the physics' 200 Hz .* found {rate_hz:g} Hz; .*rate_hz={nearest}$"
    with pytest.raises(ConfigError, match=said):
        world_of("reach", 1.0 / rate_hz)
    world_of("reach", 1.0 / float(nearest)).close()


@pytest.mark.parametrize(
    "fields",
    [{"control": ""}, {"episode": "sim"}, {"instruction": "/a b"}, {"poses": {"cube": "cube"}}],
)
def test_a_name_that_is_no_topic_is_refused(fields: dict[str, Any]):
    with pytest.raises(ConfigError, match=next(iter(fields))):
        validate(fields, SimRobot.Config)


@pytest.fixture
def lab() -> Iterator[Lab]:
    made = Lab()
    yield made
    made.close()


def test_it_stands_still_until_it_is_told_and_the_last_command_stays(lab: Lab):
    still = lab.run(50)
    assert np.abs(still - still[0]).max() < 0.01
    target = list(still[-1][:7])
    target[0] += 0.3
    lab.say(target)
    moved = lab.run(200)
    assert moved[-1][0] == pytest.approx(target[0], abs=0.02)
    assert np.ptp(moved[-50:], axis=0).max() < 0.01


def test_a_trajectory_is_a_command_too(lab: Lab):
    target = lab.run(5)[-1][:7] + 0.1
    names = lab.robot.world.robot.joint_names[:7]
    fields = {"positions": np.stack([target - 0.2, target]), "times": np.array([0.1, 0.2])}
    lab.points.send(Reading(fields, names, 0.0))
    lab.run(9)
    halfway = np.array([*lab.robot.world.targets.values()])
    np.testing.assert_allclose(halfway[:7], target - 0.2, atol=0.03)
    np.testing.assert_allclose(lab.run(300)[-1][:7], target, atol=0.03)


def test_goals_are_trajectories_and_an_array_takes_over(lab: Lab):
    start = lab.run(5)[-1][:7]
    names = lab.robot.world.robot.joint_names[:7]
    goals = lab.us.create_goal_publisher(lab.topics.follow_joint_trajectory)
    fields = {"positions": (start + 0.1)[None], "times": np.array([0.5])}
    goals.send(Reading(fields, names, 0.0))
    lab.run(26)
    at = np.array([*lab.robot.world.targets.values()])[:7]
    np.testing.assert_allclose(at, start + 0.05, atol=0.005)
    lab.say(list(at))
    lab.run(100)
    np.testing.assert_array_equal([*lab.robot.world.targets.values()][:7], at.astype(np.float32))


def test_trajectories_one_after_the_other_are_one_even_motion(lab: Lab):
    """Each begins where the one before has got to, between two steps of the world too."""
    start = lab.run(5)[-1][:7]
    names = lab.robot.world.robot.joint_names[:7]
    path = list[float]()
    for period in range(1, 9):
        fields = {"positions": (start + 0.02 * period)[None], "times": np.array([0.05])}
        lab.points.send(Reading(fields, names, 0.0))
        for _ in range(5):
            lab.tick()
            path.append(next(iter(lab.robot.world.targets.values())))
    np.testing.assert_allclose(np.diff(path[1:]), 0.004, atol=1e-5)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"positions": np.full((1, 7), np.nan), "times": np.ones(1)}, "positions not finite"),
        ({"positions": np.zeros((2, 7)), "times": np.array([0.2, 0.1])}, "expected in order"),
    ],
)
def test_a_trajectory_that_cannot_be_followed_is_dropped(lab: Lab, fields, problem):
    before = lab.run(20)[-1]
    lab.points.send(Reading(fields, lab.robot.world.robot.joint_names[:7], 0.0))
    lab.us.create_goal_publisher(lab.topics.follow_joint_trajectory).send(
        Reading(fields, lab.robot.world.robot.joint_names[:7], 0.0)
    )
    np.testing.assert_allclose(lab.run(50)[-1], before, atol=0.01)
    assert problem in lab.robot.problem
    assert problem in lab.robot.transport.problems()[0]  # whose goal it was is refused


def test_a_trajectory_of_nothing_or_of_strangers_moves_nothing(lab: Lab):
    before = lab.run(20)[-1]
    lab.points.send(Reading({"positions": np.zeros((0, 7)), "times": np.zeros(0)}, (), 0.0))
    lab.points.send(Reading({"positions": np.ones((1, 1)), "times": np.ones(1)}, ("tail",), 0.0))
    np.testing.assert_allclose(lab.run(150)[-1], before, atol=0.01)


@pytest.mark.parametrize(
    ("data", "problem"), [([0.0] * 6, "6 numbers for 7"), ([np.nan] * 7, "not finite")]
)
def test_what_no_controller_would_take_is_dropped_and_told(lab: Lab, data, problem):
    before = lab.run(20)[-1]
    lab.say(data)
    np.testing.assert_allclose(lab.run(50)[-1], before, atol=0.01)
    assert problem in lab.robot.problem


def test_joints_and_poses_are_those_of_the_world(lab: Lab):
    lab.run(3)
    said, world = lab.joints[-1], lab.robot.world
    assert said.names == world.robot.joint_names
    assert dict(zip(said.names, said.fields["position"], strict=True)) == world.joint_positions()
    assert dict(zip(said.names, said.fields["velocity"], strict=True)) == world.joint_velocities()
    np.testing.assert_array_equal(lab.poses[-1].fields["position"], world.pose("ee")["position"])
    assert np.linalg.norm(lab.poses[-1].fields["orientation"]) == pytest.approx(1.0, abs=1e-6)


def test_episodes_end_are_told_and_begin_anew_when_asked(lab: Lab):
    ticks = round(lab.robot.world.task.episode_s / DT_S)
    lab.run(ticks)  # nobody commands it yet: this does not count
    assert [(t["episode"], t["over"]) for t in lab.told] == [(1, False)]
    lab.say([0.1] * len(lab.robot.world.commanded))
    lab.run(1)  # which it hears
    lab.run(ticks - 1)
    assert len(lab.told) == 1
    lab.run(1)
    assert [(t["episode"], t["over"]) for t in lab.told] == [(1, False), (1, True)]
    before = lab.run(1)[-1]
    lab.control.send(Reading({"data": np.asarray("reset")}, (), 0.0))
    after = lab.run(1)[-1]
    assert lab.told[-1] == {"episode": 2, "over": False, "success": False}
    assert not np.array_equal(before, after)


def test_one_seed_is_one_course():
    courses = []
    for seed in (1, 1, 2):
        lab = Lab(seed=seed, position_noise=0.01, sensor_delay={"jitter_s": 0.02, "loss": 0.2})
        lab.run(40)
        courses.append([r.fields["position"].tolist() for r in lab.joints])
        lab.close()
    assert courses[0] == courses[1] != courses[2]


def test_readings_and_commands_take_their_time():
    lab = Lab(sensor_delay={"latency_s": 0.05}, command_delay={"latency_s": 0.1})
    lab.sleep(5 * DT_S)
    assert lab.joints == []
    lab.run(20)
    start = lab.joints[-1].fields["position"][0]
    lab.say([start + 0.5, *lab.joints[-1].fields["position"][1:7]])
    path = lab.run(30)[:, 0]
    assert abs(path[:14] - start).max() < 1e-2
    assert path[-1] > start + 0.05
    lab.close()


def driven(lab: Lab, path: Path, kind: str) -> Node:
    """A node whose policy drives every joint on."""
    robot = lab.robot.world.robot
    observe = {"pos": {"topic": robot.topics.joint_states, "field": "position"}}
    settings = {"robot": {"name": "panda"}, "observe": observe, "lifecycle": {"ramp_s": 0.2}}
    settings["command"] = {"exclusive": False, "kind": kind}  # the lab could say something too
    bundle = make_bundle(path / "bundle", robot, -0.003)
    return Node(
        validate_strict(settings, DeploySettings), bundle, Loopback(lab.bus), clock=lab.clock
    )


@pytest.mark.parametrize("kind", ["array", "trajectory", "follow_joint_trajectory"])
def test_a_node_drives_it(tmp_path: Path, kind: str):
    """Four seconds of a policy that drives every joint on, through limits, in lock-step."""
    lab = Lab("lift_cube")
    node = driven(lab, tmp_path, kind)
    sent: list[np.ndarray] = []
    (way,) = node.wiring.command_topics

    def hear(reading: Reading) -> None:
        sent.append(way.positions_in(reading))

    if way.action:
        lab.us.create_goal_server(way.topic, hear)
    else:
        lab.us.subscribe(way.topic, way.kind, hear, COMMAND)
    lab.drive(node, 5)
    node.request("activate")
    lab.drive(node, 78)
    assert node.runtime.state is State.RUNNING
    moved = lab.joints[-1].fields["position"] - lab.joints[0].fields["position"]
    assert (moved[:7] < -0.05).all()
    assert excess(np.stack(sent), node.runtime.parts.safety.limits) < 1e-6
    node.close()
    lab.close()


def test_the_deployed_half_knows_nothing_of_simulation():
    """A robot's computer has neither torch nor MuJoCo."""
    import subprocess

    pytest.importorskip("cyclonedds")
    code = (
        "import sys; import robo_rl_sim2real.cli.deploy, robo_rl_sim2real.transport.dds.transport;"
        "print([m for m in ('torch', 'mujoco', 'gymnasium', 'zarr') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
