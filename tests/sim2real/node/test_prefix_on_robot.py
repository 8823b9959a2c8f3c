"""A policy in two graphs on a robot: it waits for its first prefix, and holds where it is old."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from small_bundles import make_bundle, with_split

from robo_rl.config.models import validate_strict
from robo_rl.config.registry import load
from robo_rl.core.errors import BundleError, ConfigError
from robo_rl_sim2real.core.clock import Clock
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.node.node import Node
from robo_rl_sim2real.node.settings import DeploySettings
from robo_rl_sim2real.transport.base import COMMAND
from robo_rl_sim2real.transport.loopback import Bus, Loopback

ROBOT = load("robots", "panda")
NAMES = tuple(joint.name for joint in ROBOT.actuated_joints)
DT_S = 1.0 / ROBOT.rates.control_hz


def settings(**fields: Any) -> DeploySettings:
    usual = {
        "robot": {"name": "panda"},
        "observe": {"pos": {"topic": "/joint_states", "field": "position"}},
        "lifecycle": {"ramp_s": 0.2, "resume_s": 0.0},
        "prefix": {"period_s": 0.2},
    }
    return validate_strict({**usual, **fields}, DeploySettings)


class World:
    """The panda on a bus and a clock of its own; refreshes end with the tick, unless held up."""

    def __init__(self, path: Path) -> None:
        self.now_s, self.pos, self.number = 50.0, ROBOT.home_ctrl.copy(), 0
        self.bus = Bus(lambda: self.now_s)
        robot = Loopback(self.bus)
        self.joints = robot.create_publisher("/joint_states", MsgType.JOINT_STATES)
        self.control = robot.create_publisher("/policy/control", MsgType.TEXT)
        self.commands, self.reports = list[Reading](), list[Reading]()
        robot.subscribe(ROBOT.topics.command, MsgType.ARRAY, self.commands.append, COMMAND)
        robot.subscribe("/diagnostics", MsgType.DIAGNOSTICS, self.reports.append)
        bundle = with_split(path / "split", make_bundle(path / "bundle", ROBOT))
        clock = Clock(lambda: self.now_s, lambda _: None)
        self.node = Node(settings(), bundle, Loopback(self.bus), clock=clock)
        assert self.node.runtime.parts.policy.prefix is not None
        self.prefix = self.node.runtime.parts.policy.prefix
        self.open, self.error, encode = threading.Event(), list[Exception](), self.prefix._encode
        self.open.set()

        def held(obs: Any) -> Any:
            self.open.wait()
            if self.error:
                raise self.error.pop()
            return encode(obs)

        self.prefix._encode = held
        self.run(4)

    def say(self, text: str) -> None:
        self.control.send(Reading({"data": np.asarray(text)}, (), 0.0))

    def run(self, ticks: int) -> State:
        for _ in range(ticks):
            self.joints.send(Reading({"position": self.pos[::-1]}, NAMES[::-1], 0.0))
            self.number += 1
            self.node.tick(self.number)
            if self.commands:
                self.pos = self.commands[-1].fields["data"]
            self.now_s += DT_S
            self._settle()
        return self.node.runtime.state

    def _settle(self) -> None:
        until = time.monotonic() + 10.0
        while self.open.is_set() and self.prefix._ordered and self.prefix._answers.empty():
            assert time.monotonic() < until
            time.sleep(0.001)

    def moved(self, ticks: int) -> np.ndarray:
        """The changes of the arm's commands over the last ticks."""
        sent = np.stack([command.fields["data"][:7] for command in self.commands[-ticks:]])
        return np.diff(sent, axis=0)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.open.set()
    made.node.close()


def test_it_runs_and_its_diagnostics_say_the_age_of_what_it_saw(world: World):
    world.say("activate")
    assert world.run(40) is State.RUNNING
    assert (world.moved(10) > 0.0005).all()
    assert world.prefix.age_s <= 0.2 + 2 * DT_S
    statuses = {s.name: s for s in world.node.listeners._all[0].statuses(world.now_s)}  # pyright: ignore
    assert "old" in statuses["prefix"].message
    assert float(statuses["prefix"].values["prefix_age_ms"]) < 300


def test_it_holds_where_images_are_too_old_and_goes_on_after_a_refresh(world: World):
    world.say("activate")
    world.run(40)
    world.open.clear()
    world.run(60)
    assert world.node.health.reason == "late inference"
    assert np.abs(world.moved(10)).max() < 1e-6
    world.open.set()
    world._settle()
    world.run(40)
    assert world.node.runtime.state is State.RUNNING
    assert (world.moved(5) > 0.0005).all()


def test_a_second_activation_waits_for_a_prefix_of_its_own(world: World):
    world.say("activate")
    world.run(40)
    world.say("deactivate")
    world.run(20)
    world.open.clear()
    world.say("activate")
    world.run(2)
    before = world.prefix._latest
    assert before is not None
    at = world.commands[-1].fields["data"]
    world.run(6)
    assert np.abs(world.commands[-1].fields["data"] - at).max() < 1e-6
    world.open.set()
    world._settle()
    assert world.run(30) is State.RUNNING
    after = world.prefix._latest
    assert after is not None
    assert after.epoch > before.epoch
    assert (world.moved(5) > 0.0005).all()


def test_a_graph_that_breaks_brings_the_robot_to_rest(world: World):
    world.say("activate")
    world.run(40)
    world.error.append(RuntimeError("out of memory"))
    assert world.run(10) is State.FAULTED
    assert "out of memory" in world.node.health.problem


def test_a_bundle_of_one_graph_and_settings_that_never_act_are_refused(tmp_path: Path):
    bundle = make_bundle(tmp_path / "bundle", ROBOT)
    clock = Clock(lambda: 0.0, lambda _: None)
    with pytest.raises(BundleError, match=r"stages\.export\.split=true"):
        Node(settings(), bundle, Loopback(Bus(lambda: 0.0)), clock=clock)
    split = with_split(tmp_path / "split", bundle)
    slow = settings(prefix={"period_s": 0.9})
    with pytest.raises(ConfigError, match=r"safety\.max_chunk_age_s.*prefix\.period_s.*1\.1 s"):
        Node(slow, split, Loopback(Bus(lambda: 0.0)), clock=clock)
    with pytest.raises(ValidationError, match="do not continue a plan"):
        settings(chunks={"merge": "inpaint"})


def test_a_policy_whose_first_action_does_not_come_does_not_begin_later(world: World):
    world.open.clear()
    world.say("activate")
    world.run(20)
    assert world.run(round(5.0 / DT_S)) is State.INACTIVE
    assert "gave no first action within 5 s" in world.node.health.problem
    world.open.set()
    assert world.run(60) is State.INACTIVE
    assert np.abs(world.moved(40)).max() < 1e-6
