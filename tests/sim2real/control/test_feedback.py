"""What is commanded is measured on two topics, and is as old as the older."""

from __future__ import annotations

import numpy as np
import pytest

from robo_rl.config.registry import load
from robo_rl.core.errors import SpecError
from robo_rl_sim2real.control.feedback import Feedback
from robo_rl_sim2real.messages.ee_pose import EePoseAxes
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Inbox, Reading

HAND = EePoseAxes.of(load("robots", "panda"))
NUMBERS = np.array([0.5, 0.1, 0.3, 0.1, -0.2, 0.3])
BOTH = Feedback("/joints", ("grip", *HAND.names), None, "/pose", HAND)


def inbox(joints: Reading | None, pose: Reading | None) -> Inbox:
    made = Inbox()
    for topic, reading in (("/joints", joints), ("/pose", pose)):
        if reading is not None:
            made.put(topic, reading)
    return made


JOINTS = Reading({"position": np.array([7.0, 0.02])}, ("other", "grip"), 3.0)
POSE = HAND.pose(NUMBERS)._replace(stamp_s=2.0)


def test_joints_and_hand_in_the_order_of_the_actions():
    found = BOTH.sample(inbox(JOINTS, POSE))
    assert found is not None
    np.testing.assert_allclose(found.pos, [0.02, *NUMBERS])
    assert found.stamp_s == 2.0
    assert BOTH.topics == {"/joints": MsgType.JOINT_STATES, "/pose": MsgType.POSE}


def test_a_topic_that_is_silent_leaves_nothing_to_say():
    assert BOTH.sample(inbox(JOINTS, None)) is None
    assert BOTH.sample(inbox(None, POSE)) is None


def test_one_alone_needs_one_topic():
    only_hand = Feedback("", HAND.names, None, "/pose", HAND)
    assert only_hand.topics == {"/pose": MsgType.POSE}
    found = only_hand.sample(inbox(None, POSE))
    assert found is not None
    np.testing.assert_allclose(found.pos, NUMBERS)
    only_joints = Feedback("/joints", ("grip",))
    assert only_joints.topics == {"/joints": MsgType.JOINT_STATES}
    found = only_joints.sample(inbox(JOINTS, None))
    assert found is not None
    assert found.pos.tolist() == [0.02]


def test_joints_without_names_are_refused():
    with pytest.raises(SpecError, match="without names"):
        BOTH.sample(inbox(JOINTS._replace(names=()), POSE))
