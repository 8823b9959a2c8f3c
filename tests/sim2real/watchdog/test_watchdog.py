"""A policy process that dies or hangs while a robot moves: real processes, over DDS."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_bundles import make_bundle, make_hand_bundle
from small_domains import free_domain
from small_limits import excess

pytest.importorskip("cyclonedds", reason="pip install 'robo-rl[dds]'")
if not hasattr(os, "pidfd_open"):
    pytest.skip("the watchdog needs Linux", allow_module_level=True)

from small_listener import Listener

from robo_rl.bundle.manifest import Contract
from robo_rl.config.registry import load
from robo_rl_sim2real.control.commands.contract import command_spec

ROBOT = load("robots", "panda")
DT_S = 1.0 / ROBOT.rates.control_hz
SCRIPT = Path(__file__).parents[2] / "small_policy_process.py"
SETTINGS = """\
robot: panda
observe: {{pos: {observe}}}
lifecycle: {{ramp_s: 0.2, final_hold_s: 0.2}}
safety: {{max_obs_age_s: 2.0, max_obs_age_periods: 40}}
watchdog: {{hang_timeout_s: 2.0, watchdog_timeout_s: 2.0}}
"""
JOINTS = "{topic: /joint_states, field: position}"
POSE = "{topic: /ee_pose, msg_type: geometry_msgs/msg/PoseStamped, field: position}"
ASIDE = np.array([0.35, 0.35, 0.2, 0.5, -0.5, 1.2, 0.01])


class Deployment:
    """A robot here, a policy there, and a watchdog beside it."""

    def __init__(self, path: Path, *, hand: bool = False) -> None:
        self.hang, domain = path / "hang", free_domain()
        self.bundle = (
            make_hand_bundle(path / "bundle", ROBOT, ASIDE)
            if hand
            else make_bundle(path / "bundle", ROBOT, 0.02)
        )
        (path / "settings.yaml").write_text(SETTINGS.format(observe=POSE if hand else JOINTS))
        self.robot = Listener(ROBOT, domain, hand=hand)
        words: list[Any] = [path / "bundle", path / "settings.yaml", self.hang]
        self.policy = subprocess.Popen(
            [sys.executable, SCRIPT, *words, f"transport.domain={domain}"],
            stderr=subprocess.PIPE,
            text=True,
        )

    def watchdog(self) -> int:
        """Its process."""
        children = Path(f"/proc/{self.policy.pid}/task/{self.policy.pid}/children")
        (pid,) = children.read_text().split()
        return int(pid)

    def close(self) -> None:
        self.policy.kill()
        self.policy.communicate()
        self.robot.close()


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    made = Deployment(tmp_path)
    yield made
    made.close()


def at_rest_within_limits(deployment: Deployment, fault_s: float) -> None:
    """What was commanded around the fault, and that it ended at rest."""
    contract: Contract = deployment.bundle.manifest.contract
    limits = command_spec(contract, ROBOT).limits
    after = np.stack([pos for _, pos in deployment.robot.since(fault_s)])
    np.testing.assert_array_equal(after[-1], after[-2])
    said = slice(after.shape[1])
    assert (after >= limits.low[said]).all()
    assert (after <= limits.high[said]).all()
    # The first is the policy's last once more; whether the robot had stopped or not, the rest goes
    # on from there.
    assert (np.abs(np.diff(after, axis=0)) <= limits.velocity[said] * DT_S * (1 + 1e-6)).all()


def first_repeated(sent: list[tuple[float, np.ndarray]], after_s: float) -> float:
    """When, after that, the first command came that is the one before it: the watchdog's."""
    return next(
        at_s for (_, one), (at_s, two) in pairwise(sent) if at_s > after_s and (one == two).all()
    )


def test_one_that_is_killed_is_followed_by_the_way_to_rest(deployment: Deployment):
    deployment.robot.wait(30)
    fault_s = time.monotonic()
    deployment.policy.kill()
    _, said = deployment.policy.communicate(timeout=20)  # its watchdog has ended, too
    assert "robo-rl watchdog: the policy process died; the robot was brought to rest" in said
    health = json.loads(deployment.hang.with_name("health.json").read_text())
    assert (health["ended"], health["problem"].split(";")[0]) == (
        "killed",
        "the policy process died",
    )
    assert health["ticks"] >= 30
    assert first_repeated(deployment.robot.sent, fault_s) - fault_s < 1.0
    assert deployment.robot.states[-1] == "faulted"
    at_rest_within_limits(deployment, fault_s)


@pytest.mark.slow
def test_a_hand_is_brought_to_rest_and_its_gripper_with_it(tmp_path: Path):
    deployment = Deployment(tmp_path, hand=True)
    try:
        deployment.robot.wait(12)  # under way
        fault_s, gripped = time.monotonic(), len(deployment.robot.grips)
        deployment.policy.kill()
        _, said = deployment.policy.communicate(timeout=20)
        assert "the policy process died; the robot was brought to rest" in said
        at_rest_within_limits(deployment, fault_s)
        grips = np.concatenate(deployment.robot.grips[gripped:])
        assert len(grips) >= len(deployment.robot.since(fault_s)) - 1 > 3
        assert grips[-1] == grips[-2]
    finally:
        deployment.close()


@pytest.mark.slow
def test_one_that_was_stopped_does_not_come_back(deployment: Deployment):
    deployment.robot.wait(30)
    fault_s = time.monotonic()
    deployment.policy.send_signal(signal.SIGSTOP)
    _, said = deployment.policy.communicate(timeout=20)
    assert deployment.policy.returncode == -signal.SIGKILL
    assert "was stopped by a signal" in said
    at_rest_within_limits(deployment, fault_s)
    told = len(deployment.robot.sent)
    time.sleep(4 * DT_S)
    assert len(deployment.robot.sent) == told


def test_one_whose_loop_hangs_is_ended(deployment: Deployment):
    deployment.robot.wait(30)
    fault_s = time.monotonic()
    deployment.hang.touch()
    _, said = deployment.policy.communicate(timeout=20)
    assert deployment.policy.returncode == -signal.SIGKILL
    assert "the policy process hangs: its last command is" in said
    assert deployment.robot.states[-1] == "faulted"
    at_rest_within_limits(deployment, fault_s)


@pytest.mark.slow
def test_one_that_is_only_late_is_left_alone_and_goes_on(deployment: Deployment):
    deployment.robot.wait(30)
    deployment.hang.write_text("0.8")  # sixteen periods
    while deployment.hang.exists():
        time.sleep(0.01)
    told = len(deployment.robot.sent)
    deployment.robot.wait(told + 30)
    assert deployment.policy.poll() is None
    sent = deployment.robot.sent
    gaps = np.diff([at_s for at_s, _ in sent])
    late = int(gaps.argmax())
    assert gaps[late] > 0.7
    limits = command_spec(deployment.bundle.manifest.contract, ROBOT).limits
    assert excess(np.stack([pos for _, pos in sent[late:]][1:]), limits) < 1e-6  # from standstill
    np.testing.assert_allclose(sent[late + 1][1], sent[late][1], atol=1e-3)


@pytest.mark.slow
def test_one_that_ends_in_order_ends_its_watchdog_which_is_light_and_has_a_session_of_its_own(
    deployment: Deployment,
):
    deployment.robot.wait(30)
    watchdog = deployment.watchdog()
    assert os.getsid(watchdog) == watchdog
    loaded = Path(f"/proc/{watchdog}/maps").read_text()
    assert "numpy" in loaded
    assert not [name for name in ("onnxruntime", "torch", "mujoco") if name in loaded]
    deployment.policy.send_signal(signal.SIGINT)
    _, said = deployment.policy.communicate(timeout=20)
    assert deployment.policy.returncode == 0
    assert said == ""
    assert deployment.robot.states[-1] == "inactive"


@pytest.mark.parametrize(
    "how", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.slow)]
)
def test_without_its_watchdog_the_policy_comes_to_rest_and_does_not_begin_again(
    deployment: Deployment, how: signal.Signals
):
    deployment.robot.wait(30)
    os.kill(deployment.watchdog(), signal.SIGTERM)  # is not for it
    os.kill(deployment.watchdog(), how)
    until = time.monotonic() + 20.0
    while deployment.robot.states[-1] != "faulted" and time.monotonic() < until:
        time.sleep(0.01)
    assert deployment.robot.states[-1] == "faulted"
    before, sent = -1, deployment.robot.sent
    while before != len(sent):
        before = len(sent)
        time.sleep(0.5)
    np.testing.assert_array_equal(sent[-1][1], sent[-2][1])
    path = np.stack([pos for _, pos in sent])
    limits = command_spec(deployment.bundle.manifest.contract, ROBOT).limits
    assert excess(path, limits) < 1e-6
