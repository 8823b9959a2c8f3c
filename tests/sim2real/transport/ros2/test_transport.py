"""A node of ROS 2's own: its lifecycle is the policy's, and nodes without rclpy hear it."""

# pyright: reportMissingImports=false
from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_bundles import make_bundle
from small_domains import free_domain

pytest.importorskip("rclpy", reason="rclpy comes with ROS 2")

from lifecycle_msgs.srv import ChangeState, GetState

from robo_rl.config.models import validate_strict
from robo_rl.config.registry import load
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.diagnostics import Level, Status, statuses_to_reading
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.node.node import Node
from robo_rl_sim2real.node.settings import DeploySettings
from robo_rl_sim2real.transport.base import COMMAND, POLICY, SENSOR
from robo_rl_sim2real.transport.ros2.transport import Ros2

ROBOT = load("robots", "panda")
NAMES = tuple(joint.name for joint in ROBOT.actuated_joints)
SETTINGS = {
    "robot": {"name": "panda"},
    "observe": {"pos": {"topic": "/joint_states", "field": "position"}},
    "lifecycle": {"ramp_s": 0.2, "max_hold_s": 60.0},
    "safety": {
        "max_obs_age_s": 2.0,
        "max_obs_age_periods": 100,
    },  # a machine with other things to do
}
PATIENCE_S = 20.0
PROFILE = Path(__file__).parents[4] / "sim2real/ros2/config/fastdds_no_types.xml"
WORDS = {
    MsgType.TEXT: Reading({"data": np.asarray("lift the cube")}, (), 0.0),
    MsgType.JOINT_STATES: Reading({"position": np.array([0.1, -2.0])}, ("a", "b"), 0.0),
    MsgType.DIAGNOSTICS: statuses_to_reading(
        [Status("loop", Level.WARN, "slow", {"ticks": "7"})], "panda"
    ),
}


def wait(done: Callable[[], bool]) -> bool:
    until = time.monotonic() + PATIENCE_S
    while not done() and time.monotonic() < until:
        time.sleep(0.01)
    return done()


class Manager:
    """A robot that stays where it is, and who manages the node that moves it, by ROS 2's means."""

    def __init__(self, domain: int, path: Path) -> None:
        self.ros = Ros2(Ros2.Config(domain=domain), "manager")
        self.joints = self.ros.create_publisher("/joint_states", MsgType.JOINT_STATES, SENSOR)
        self.ros.subscribe(ROBOT.topics.command, MsgType.ARRAY, lambda _: None, COMMAND)
        bundle, own = (
            make_bundle(path / "bundle", ROBOT, 0.0),
            Ros2(Ros2.Config(domain=domain), "arm"),
        )
        self.policy = Node(validate_strict(SETTINGS, DeploySettings), bundle, own)
        self._clients = {
            what: self.ros.node.create_client(kind, f"/arm/{what}")
            for what, kind in (("change_state", ChangeState), ("get_state", GetState))
        }
        self._open = True
        self._threads = [threading.Thread(target=t) for t in (self.policy.run, self._measure)]
        for thread in self._threads:
            thread.start()

    def _measure(self) -> None:
        while self._open:
            self.joints.send(Reading({"position": ROBOT.home_ctrl}, NAMES, 0.0))
            time.sleep(0.01)

    def change(self, label: str) -> bool:
        request = ChangeState.Request()
        request.transition.label = label
        return self._ask("change_state", request).success

    @property
    def state(self) -> str:
        return self._ask("get_state", GetState.Request()).current_state.label

    def _ask(self, what: str, request: Any) -> Any:
        client, done = self._clients[what], threading.Event()
        assert client.wait_for_service(timeout_sec=PATIENCE_S)
        future = client.call_async(request)
        future.add_done_callback(lambda _: done.set())
        assert done.wait(PATIENCE_S)
        return future.result()

    def close(self) -> None:
        self._open = False
        self.policy.stop()
        for thread in self._threads:
            thread.join()
        self.policy.close()
        self.ros.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    made = Manager(free_domain(), tmp_path)
    yield made
    made.close()


def test_its_lifecycle_is_the_policys(manager: Manager):
    assert wait(lambda: manager.state == "inactive")
    assert wait(lambda: manager.policy.runtime.parts.feedback_checker.is_standing)
    assert manager.change("activate")
    assert wait(lambda: manager.policy.runtime.state is State.RUNNING)
    assert manager.state == "active"
    assert manager.change("deactivate")
    assert manager.policy.runtime.state is State.INACTIVE
    assert wait(lambda: manager.policy.record.silent)
    assert manager.change("cleanup")
    assert manager.policy.runtime.state is State.UNCONFIGURED
    assert manager.change("configure")
    assert manager.policy.runtime.state is State.INACTIVE


def test_it_follows_what_the_policy_does_by_itself(manager: Manager):
    assert wait(lambda: manager.state == "inactive")
    assert wait(lambda: manager.policy.runtime.parts.feedback_checker.is_standing)
    manager.policy.request("activate")
    assert wait(lambda: manager.state == "active")
    assert manager.ros.call_service("/arm/stop", PATIENCE_S).success
    assert wait(lambda: manager.policy.runtime.state is State.FAULTED)
    assert wait(lambda: manager.state == "inactive")
    assert not manager.change("activate")  # it is at fault
    assert manager.state == "inactive"
    assert manager.ros.call_service("/arm/reset", PATIENCE_S).success


def test_a_shutdown_ends_the_loop(manager: Manager):
    assert wait(lambda: manager.state == "inactive")
    assert manager.change("shutdown")
    assert wait(lambda: not manager.policy._running)


@pytest.mark.skipif(importlib.util.find_spec("cyclonedds") is None, reason="needs cyclonedds")
@pytest.mark.parametrize("kind", WORDS)
def test_nodes_without_rclpy_hear_it_and_are_heard(kind: MsgType):
    from robo_rl_sim2real.transport.dds.transport import Dds

    domain, script = free_domain(), Path(__file__).with_name("ros2_echo.py")
    echo = subprocess.Popen(
        [sys.executable, str(script), str(domain), kind.value],
        stdin=subprocess.PIPE,
        env={**os.environ, "FASTDDS_DEFAULT_PROFILES_FILE": str(PROFILE)},
    )
    dds, heard = Dds(Dds.Config(domain=domain), "dds"), list[Reading]()
    try:
        dds.subscribe("/back", kind, heard.append, COMMAND)
        out = dds.create_publisher("/there", kind)
        until = time.monotonic() + PATIENCE_S
        while not heard and time.monotonic() < until:
            out.send(WORDS[kind])
            time.sleep(0.05)
        assert heard
        assert heard[-1].names == WORDS[kind].names
        for name, value in WORDS[kind].fields.items():
            np.testing.assert_array_equal(heard[-1].fields[name], value)
    finally:
        dds.close()
        echo.communicate(timeout=30)


@pytest.mark.skipif(importlib.util.find_spec("mujoco") is None, reason="needs robo-rl[sim]")
def test_a_simulated_robot_runs_and_says_what_it_cannot_take(tmp_path: Path):
    words = ["sim-robot", "--transport", "ros2", "--domain", str(free_domain()), "--seconds", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "robo_rl", *words, "--json", tmp_path / "found.json"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    takes = importlib.util.find_spec("control_msgs") is not None
    assert ("it takes goals, too" in done.stderr) is takes
    assert ("No module named 'control_msgs'" in done.stderr) is not takes
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["episodes"], found["unfinished"], found["outcomes"]) == (1, 1, [])


def test_who_is_beside_the_policy_has_a_name_of_its_own():
    given = Ros2.Config(domain=3, args=("--ros-args", "-r", "__node:=arm"))
    policy, watchdog = Ros2(given, POLICY), Ros2(given, f"{POLICY}_watchdog")
    assert (policy.node.get_name(), watchdog.node.get_name()) == ("arm", "arm_watchdog")
    policy.close()
    watchdog.close()
