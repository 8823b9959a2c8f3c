"""Changes of single actions: what they lead to, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from small_limits import limits

from robo_rl.core.errors import BundleError
from robo_rl.core.rotations import quat_mul, rotvec_to_quat
from robo_rl.core.spec import ActSpec
from robo_rl_sim2real.control.commands.deltas import delta_actions, largest_lead

NAMES = ("x", "y", "z", "rx", "ry", "rz", "gripper")
TURNING = NAMES[3:6]


def spec(**changes) -> ActSpec:
    fields = {
        "shape": (7,),
        "names": NAMES,
        "rate_hz": 20.0,
        "low": (-0.05,) * 6 + (0.0,),
        "high": (0.05,) * 6 + (0.04,),
        "reference": "delta," * 6 + "absolute",
    }
    return ActSpec(**{**fields, **changes})


LAST = np.array([0.5, 0.0, 0.3, 0.3, 0.2, 0.4, 0.04])


def test_the_arm_changes_and_the_gripper_has_a_target():
    found = delta_actions(spec(), TURNING)
    assert found is not None
    target = found.target(LAST, np.array([0.01, -0.02, 9.0, 0.0, 0.0, 0.0, 0.02]))
    np.testing.assert_allclose(target, [0.51, -0.02, 0.35, 0.3, 0.2, 0.4, 0.02], atol=1e-12)


def test_a_rotation_is_about_the_axes_of_the_base():
    found = delta_actions(spec(), TURNING)
    assert found is not None
    act = np.array([0.0, 0.0, 0.0, 0.01, -0.02, 0.05, 0.0])
    target = found.target(LAST, act)
    expected = quat_mul(rotvec_to_quat(act[3:6]), rotvec_to_quat(LAST[3:6]))
    np.testing.assert_allclose(rotvec_to_quat(target[3:6]), expected, atol=1e-12)
    np.testing.assert_allclose(found.action(LAST, target), act, atol=1e-12)


def test_a_hand_that_turns_on_beyond_half_a_turn_does_not_turn_back():
    """Limits of the axes clip the target beside the last one."""
    found = delta_actions(spec(), TURNING)
    assert found is not None
    last, act = LAST.copy(), np.zeros(7)
    last[3:6], act[3:6] = (3.1, 0.0, 0.0), (found.high[3], 0.0, 0.0)
    turned = found.target(last, act)[3:6]
    np.testing.assert_allclose(turned, [3.1 + found.high[3], 0.0, 0.0], atol=1e-12)
    assert turned[0] > np.pi


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("index", [0, 4, 6])
def test_what_is_not_finite_stays_so(bad, index):
    found = delta_actions(spec(), TURNING)
    assert found is not None
    act = np.zeros(7)
    act[index] = bad
    assert not np.isfinite(found.target(LAST, act)).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reference": "velocity"}, "expected absolute or delta, found velocity"),
        ({"low": ()}, "delta with limits"),
        ({"reference": "delta,delta,delta,delta,delta,absolute,absolute"}, "part of a rotation"),
    ],
)
def test_what_cannot_be_added_up_is_refused(changes, message):
    with pytest.raises(BundleError, match=message):
        delta_actions(spec(**changes), TURNING)


def test_targets_need_no_conversion():
    assert delta_actions(spec(reference="absolute"), TURNING) is None


def test_a_target_at_full_speed_leads_by_no_more_than_the_bound():
    """A command that accelerates from rest as fast as it may, and a target that runs ahead."""
    bounds = limits()
    time_s = np.arange(200)[:, None] * bounds.dt_s
    target = bounds.velocity * (time_s + bounds.dt_s)
    speeding = bounds.velocity / bounds.acceleration
    command = np.where(
        time_s < speeding,
        0.5 * bounds.acceleration * time_s**2,
        bounds.velocity * (time_s - 0.5 * speeding),
    )
    np.testing.assert_allclose((target - command).max(0), largest_lead(bounds), rtol=1e-9)
