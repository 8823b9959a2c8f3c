"""A bundle and the robot that it is to be run on: what fits, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_robot import contract

from robo_rl.bundle.manifest import Contract
from robo_rl.config.registry import load
from robo_rl.core.errors import BundleError
from robo_rl.core.spec import ActSpec
from robo_rl_sim2real.control.commands.contract import command_spec

PANDA = load("robots", "panda")
ARM = PANDA.actuated_joints


def bundle(**changes: Any) -> Contract:
    """Of the panda, its joints in another order than the robot's."""
    joints = tuple(reversed(ARM))
    fields: dict[str, Any] = {
        "shape": (len(joints),),
        "unit": ",".join(joint.unit for joint in joints),
        "names": tuple(joint.actuator or joint.name for joint in joints),
        "low": tuple(joint.low for joint in joints),
        "high": tuple(joint.high for joint in joints),
        "rate_hz": PANDA.rates.control_hz,
    }
    act = ActSpec(**{**fields, **changes})
    return contract().model_copy(update={"robot": "panda", "act": act})


def test_joints_and_limits_come_in_the_order_of_the_actions():
    found = command_spec(bundle(), PANDA)
    assert found.names == tuple(joint.name for joint in reversed(ARM))
    of_joint = {"velocity": "max_velocity", "acceleration": "max_acceleration", "jerk": "max_jerk"}
    for mine, theirs in {"low": "low", "high": "high", **of_joint}.items():
        assert getattr(found.limits, mine).tolist() == [getattr(j, theirs) for j in reversed(ARM)]
    assert found.limits.dt_s == 1.0 / PANDA.rates.control_hz
    np.testing.assert_array_equal(found.home, PANDA.home_ctrl[::-1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rate_hz": 50.0}, r"act rate_hz: expected 50, found 20"),
        ({"unit": "deg"}, "act unit: expected deg"),
        ({"low": (-1.0,) * len(ARM)}, r"act low: expected \(-1, "),
        ({"high": ()}, "act high"),
        ({"names": ("shoulder", *bundle().act.names[1:])}, "no actuator or axis 'shoulder'"),
        ({"names": ()}, "no names"),
        ({"reference": "velocity"}, "act reference"),
        ({"reference": "delta", "low": (), "high": ()}, "act reference"),
        ({"names": bundle().act.names[::-1]}, "act unit.*\n.*act low.*\n.*act high"),
    ],
)
def test_what_differs_is_refused_and_named(change, message):
    with pytest.raises(BundleError, match=message):
        command_spec(bundle(**change), PANDA)


def test_changes_have_limits_of_their_own():
    small = (0.05,) * len(ARM)
    found = command_spec(bundle(reference="delta", low=tuple(-x for x in small), high=small), PANDA)
    assert found.deltas is not None
    assert found.deltas.high.tolist() == list(small)
    assert command_spec(bundle(), PANDA).deltas is None


def test_a_gripper_with_targets_keeps_the_robots_limits_beside_changes_of_the_arm():
    """The gripper comes first here; what it may be told is compared, changes are not."""
    reference = "absolute" + ",delta" * 7
    small = (0.04,) + (0.05,) * 7
    low = (0.0,) + (-0.05,) * 7
    found = command_spec(bundle(reference=reference, low=low, high=small), PANDA)
    assert found.deltas is not None
    assert found.deltas.is_delta.tolist() == [False] + [True] * 7
    with pytest.raises(BundleError, match="act high: expected"):
        command_spec(bundle(reference=reference, low=low, high=(0.08, *small[1:])), PANDA)


def test_another_robot_is_refused_before_anything_moves():
    with pytest.raises(BundleError, match="no actuator"):
        command_spec(bundle(), load("robots", "so101"))
    other = bundle().model_copy(update={"robot": "panda2"})
    with pytest.raises(BundleError, match="robot: expected panda2, found panda"):
        command_spec(other, PANDA)
