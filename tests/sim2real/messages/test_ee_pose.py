"""The end effector's six numbers as poses and velocities."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from robo_rl.config.registry import load
from robo_rl.core.errors import SpecError
from robo_rl.core.rotations import quat_mul, rotvec_to_quat
from robo_rl_sim2real.messages.ee_pose import EePoseAxes
from robo_rl_sim2real.messages.readings import Reading

ROBOT = load("robots", "panda")
HAND = EePoseAxes.of(ROBOT)
AXES = ROBOT.end_effector.axes
LOW, HIGH = (np.array([getattr(a, end) for a in AXES]) for end in ("low", "high"))
SOME = np.random.default_rng(0).uniform(LOW, HIGH, (50, 6))


def test_every_pose_within_the_limits_survives_the_message():
    for numbers in SOME:
        said = HAND.pose(numbers)
        np.testing.assert_allclose(HAND.numbers(said, "/pose"), numbers, atol=1e-12)
        flipped = said._replace(fields={**said.fields, "orientation": -said.fields["orientation"]})
        np.testing.assert_allclose(HAND.numbers(flipped, "/pose"), numbers, atol=1e-12)


def test_nothing_turned_is_upright_and_turns_are_in_the_base_frame():
    said = HAND.pose(np.array([0.5, 0.1, 0.2, 0.0, 0.0, 0.0]))
    np.testing.assert_array_equal(said.fields["orientation"], ROBOT.end_effector.upright)
    assert str(said.fields["frame"]) == "panda_link0"
    turned = HAND.pose(np.array([0.5, 0.1, 0.2, 0.0, 0.0, 0.3])).fields["orientation"]
    about_z = quat_mul(rotvec_to_quat(np.array([0, 0, 0.3])), np.array(ROBOT.end_effector.upright))
    np.testing.assert_allclose(turned, about_z)


def test_a_velocity_leads_from_one_pose_to_the_next():
    for before, after in itertools.pairwise(SOME):
        twist = HAND.twist(after, before, 0.05)
        np.testing.assert_allclose(HAND.integrate_twist(before, twist, 0.05), after, atol=1e-9)


def test_the_hand_turns_no_faster_than_its_numbers_change():
    """What lets one safety filter limit the angular velocity: |w| <= |dr/dt|."""
    for numbers, change in zip(SOME, np.random.default_rng(1).normal(size=(50, 6)), strict=True):
        after = numbers + 1e-6 * change
        angular = np.linalg.norm(HAND.twist(after, numbers, 1e-6).fields["angular"])
        assert angular <= np.linalg.norm(change[3:]) * (1 + 1e-4)


def test_another_frame_is_refused_and_one_that_is_not_named_is_ours():
    said = HAND.pose(SOME[0])
    plain = Reading({k: v for k, v in said.fields.items() if k != "frame"}, (), 0.0)
    np.testing.assert_allclose(HAND.numbers(plain, "/pose"), SOME[0])
    other = said._replace(fields={**said.fields, "frame": np.asarray("camera")})
    with pytest.raises(SpecError, match="frame; expected panda_link0, found camera"):
        HAND.numbers(other, "/pose")


def test_what_is_no_pose_is_refused():
    said = HAND.pose(SOME[0])
    for field, value, why in (
        ("orientation", np.zeros(4), "no orientation"),
        ("position", np.array([np.nan, 0, 0]), "not finite"),
    ):
        with pytest.raises(SpecError, match=why):
            HAND.numbers(said._replace(fields={**said.fields, field: value}), "/pose")
