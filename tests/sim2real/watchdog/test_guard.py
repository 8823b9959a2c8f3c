"""A node under a guard: told of every command before it is sent, and still without one."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from small_bundles import make_bundle
from small_limits import excess

from robo_rl.config.models import validate_strict
from robo_rl.config.registry import load
from robo_rl.core.errors import DeviceError
from robo_rl_sim2real.cli.watchdog import watchdog_job, with_watchdog
from robo_rl_sim2real.control.commands.braking import Motion
from robo_rl_sim2real.core.clock import Clock, boot_clock
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.node.node import Node
from robo_rl_sim2real.node.settings import DeploySettings
from robo_rl_sim2real.transport.base import COMMAND
from robo_rl_sim2real.transport.loopback import Bus, Loopback
from robo_rl_sim2real.watchdog.guard import Watchdog, WatchdogLostError
from robo_rl_sim2real.watchdog.job import WatchdogJob

ROBOT = load("robots", "panda")
NAMES = tuple(joint.name for joint in ROBOT.actuated_joints)
DT_S = 1.0 / ROBOT.rates.control_hz
WATCHED = 4
SETTINGS = validate_strict(
    {
        "robot": {"name": "panda"},
        "observe": {"pos": {"topic": "/joint_states", "field": "position"}},
        "lifecycle": {"ramp_s": 0.2, "final_hold_s": 0.2},
        "command": {"joints": NAMES[::-1]},
    },
    DeploySettings,
)


class Ledger:
    """A guard in this process: remembers what it was told, and can be gone."""

    writers = 0

    def __init__(self, sent: list[Reading]) -> None:
        self.sent, self.told, self.gone = sent, list[tuple[int, Motion, bool]](), False
        self.stood = False

    def report(self, motion: Motion, *, sending: bool) -> None:
        self.told.append((len(self.sent), motion, sending))

    def has_stood(self) -> bool:
        return self.stood

    def check(self) -> None:
        if self.gone:
            raise WatchdogLostError("the watchdog ended")


class World:
    """The panda on a bus and a clock of its own."""

    def __init__(self, path: Path, *, dry_run: bool = False) -> None:
        self.now_s, self.number, self.pos = 50.0, 0, ROBOT.home_ctrl.copy()
        bus, self.commands = Bus(lambda: self.now_s), list[Reading]()
        robot, self.control = (
            Loopback(bus),
            Loopback(bus).create_publisher("/policy/control", MsgType.TEXT),
        )
        self.joints = robot.create_publisher("/joint_states", MsgType.JOINT_STATES)
        robot.subscribe(ROBOT.topics.command, MsgType.ARRAY, self.commands.append, COMMAND)
        clock = Clock(lambda: self.now_s, lambda s: None)
        bundle = make_bundle(path / "bundle", ROBOT, 0.01)
        self.node = Node(SETTINGS, bundle, Loopback(bus), clock=clock, dry_run=dry_run)
        self.run(WATCHED)
        self.guard = self.node.guard = Ledger(self.commands)

    def run(self, ticks: int) -> State:
        for _ in range(ticks):
            self.joints.send(Reading({"position": self.pos}, NAMES, 0.0))
            self.number += 1
            self.node.tick(self.number)
            if self.commands:
                self.pos = self.commands[-1].fields["data"][::-1]
            self.now_s += DT_S
        return self.node.runtime.state


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.node.close()


def test_every_command_is_told_before_it_is_sent_and_silence_too(world: World):
    world.run(3)
    world.node.request("activate")
    world.run(20)
    world.node.request("deactivate")
    world.run(20)
    assert len(world.guard.told) == 43
    commands = [(before, motion) for before, motion, sending in world.guard.told if sending]
    assert [before for before, _ in commands] == list(range(len(world.commands)))
    for (_, motion), sent in zip(commands, world.commands, strict=True):
        np.testing.assert_array_equal(motion.pos[::-1], sent.fields["data"])
    assert [sending for *_, sending in world.guard.told[-3:]] == [False] * 3


def test_the_ages_of_both_processes_include_a_suspension():
    assert inspect.signature(Watchdog).parameters["now_s"].default is boot_clock().now_s


def test_without_its_guard_it_does_not_begin(world: World):
    world.guard.gone = True
    world.node.request("activate")
    assert world.run(3) is State.INACTIVE
    assert world.commands == []
    assert "the watchdog ended" in world.node.health.problem


def test_losing_its_guard_is_a_fault_that_lasts(world: World):
    world.node.request("activate")
    world.run(20)
    world.guard.gone = True
    assert world.run(1) is State.FAULTED
    assert "the watchdog ended" in world.node.health.problem
    world.run(40)
    assert world.node.health.reason == "watchdog lost"
    sent = [command.fields["data"] for command in world.commands]
    np.testing.assert_array_equal(sent[-1], sent[-2])
    limits = world.node.runtime.parts.safety.limits
    told = [motion.pos for _, motion, sending in world.guard.told if sending]
    assert excess(np.stack(told), limits) < 1e-6
    world.node.request("reset")
    world.node.request("activate")
    assert world.run(3) is State.INACTIVE


def test_in_a_dry_run_it_is_told_that_nothing_is_sent(tmp_path: Path):
    world = World(tmp_path, dry_run=True)
    world.node.request("activate")
    assert world.run(20) is State.RUNNING
    assert [sending for *_, sending in world.guard.told] == [False] * 20
    world.node.close()


def test_orders_arrive_as_they_were_given(world: World):
    given = watchdog_job(world.node, SETTINGS)
    taken = WatchdogJob.model_validate_json(given.model_dump_json())
    assert taken.command_topics == world.node.wiring.command_topics
    assert taken.transport.cfg == given.transport.cfg
    limits = world.node.runtime.parts.safety.limits
    for name in ("low", "high", "velocity", "acceleration", "jerk", "dt_s"):
        np.testing.assert_array_equal(getattr(taken.joint_limits, name), getattr(limits, name))
    pos = np.arange(len(NAMES), dtype=np.float64)
    found = taken.command_topics[0].to_reading(Motion(pos, pos, pos))
    np.testing.assert_array_equal(found.fields["data"], pos[::-1])
    assert found.names == NAMES[::-1]


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="the watchdog needs Linux")
@pytest.mark.parametrize("sending", [False, True])
def test_one_stays_if_its_node_ends_while_commands_are_sent(world: World, sending: bool):
    pytest.importorskip("cyclonedds", reason="pip install 'robo-rl[dds]'")
    still = Motion(*np.zeros((3, len(NAMES))))
    with with_watchdog(world.node, SETTINGS):
        world.node.guard.report(still, sending=sending)
    watchdog = world.node.guard
    assert isinstance(watchdog, Watchdog)
    assert (watchdog._process.poll() is None) is sending
    watchdog.close()


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="the watchdog needs Linux")
def test_one_that_does_not_start_is_told(world: World):
    pytest.importorskip("cyclonedds", reason="pip install 'robo-rl[dds]'")
    stranger = watchdog_job(world.node, SETTINGS).model_copy(update={"pid": 1})
    with pytest.raises(DeviceError, match=r"does not start; found status 0; watchdog\.enabled"):
        Watchdog(SETTINGS.watchdog, stranger)
