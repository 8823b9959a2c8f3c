"""Recordings in which a hand was commanded, on two topics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from small_bundles import make_hand_bundle

pytest.importorskip("rosbags", reason="pip install 'robo-rl[dds]'")

from small_bags import Said, convert, joints, write

from robo_rl.config.registry import load
from robo_rl.core.errors import DataError
from robo_rl_sim2real.messages.ee_pose import EePoseAxes
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading

ROBOT = load("robots", "panda")
HAND = EePoseAxes.of(ROBOT)
HOME = np.array([axis.home for axis in ROBOT.end_effector.axes])
STEPS = 20


def pose(at_s: float, topic: str, numbers: np.ndarray) -> Said:
    return at_s, topic, MsgType.POSE, HAND.pose(numbers)


def grip(at_s: float, width: float) -> Said:
    reading = Reading({"data": np.array([width])}, (), at_s)
    return at_s, ROBOT.topics.gripper_command, MsgType.ARRAY, reading


def course(*, silent: range = range(0)) -> list[Said]:
    """The hand goes on by a millimetre a period, the gripper closes, and says so just after it."""
    said = [joints(0.01 * i, ROBOT.home_qpos, ROBOT.joint_names) for i in range(5 * STEPS + 10)]
    said += [pose(0.01 * i + 0.001, "/ee_pose", HOME) for i in range(5 * STEPS + 10)]
    for k in range(STEPS):
        if k not in silent:
            numbers = HOME + np.array([0.001 * k, 0, 0, 0, 0, 0])
            said.append(pose(0.052 + 0.05 * k, ROBOT.topics.ee_pose_command, numbers))
        said.append(grip(0.0522 + 0.05 * k, 0.04 - 0.001 * k))
    return sorted(said, key=lambda item: item[0])


@pytest.fixture
def known(tmp_path: Path) -> dict[str, str]:
    make_hand_bundle(tmp_path / "bundle", ROBOT, np.append(HOME, 0.02))
    source = {"topic": "/ee_pose", "msg_type": MsgType.POSE.value, "field": "position"}
    settings = {"robot": "panda", "observe": {"pos": source}}
    (tmp_path / "settings.yaml").write_text(yaml.safe_dump(settings))
    return {"settings": str(tmp_path / "settings.yaml"), "contract_from": str(tmp_path / "bundle")}


def test_hand_and_gripper_of_one_command_are_one_action(tmp_path: Path, known: dict[str, str]):
    acts = convert(write(tmp_path / "bag", course()), tmp_path / "d.zarr", **known).read()["act"]
    steps = np.arange(len(acts))
    assert len(acts) == STEPS
    np.testing.assert_allclose(acts[:, 0], HOME[0] + 0.001 * steps, atol=1e-6)
    np.testing.assert_allclose(acts[:, 6], 0.04 - 0.001 * steps, atol=1e-6)


def test_a_gripper_that_is_told_a_little_before_the_hand_is_of_the_same_command(
    tmp_path: Path, known: dict[str, str]
):
    """Of two publishers either may be first; the last one before the hand is of its command."""
    early_s = [0.001 if k % 3 else 0.0 for k in range(STEPS)]
    said = [item for item in course() if item[1] != ROBOT.topics.gripper_command]
    said += [grip(0.0522 + 0.05 * k - early_s[k], 0.04 - 0.001 * k) for k in range(STEPS)]
    bag = write(tmp_path / "bag", sorted(said, key=lambda item: item[0]))
    acts = convert(bag, tmp_path / "d.zarr", **known).read()["act"]
    np.testing.assert_allclose(acts[:, 6], 0.04 - 0.001 * np.arange(STEPS), atol=1e-6)


def test_a_hand_that_falls_silent_ends_an_episode_though_the_gripper_goes_on(
    tmp_path: Path, known: dict[str, str]
):
    said = course(silent=range(8, 14))
    assert len(convert(write(tmp_path / "bag", said), tmp_path / "d.zarr", **known).episodes) == 2


def test_velocities_of_another_node_say_no_positions(tmp_path: Path, known: dict[str, str]):
    twist = HAND.twist(HOME, HOME, 0.05)
    said = [item for item in course() if item[1] != ROBOT.topics.ee_pose_command]
    said.append((0.06, ROBOT.topics.ee_twist_command, MsgType.TWIST, twist))
    settings = Path(known["settings"])
    settings.write_text(settings.read_text() + "command: {kind: twist}\n")
    bag = write(tmp_path / "bag", sorted(said, key=lambda item: item[0]))
    with pytest.raises(DataError, match="says no positions"):
        convert(bag, tmp_path / "d.zarr", **known)
