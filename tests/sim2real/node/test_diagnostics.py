"""What a node says of its health is so, and comes when it matters."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from small_bundles import make_bundle

from robo_rl.config.models import validate_strict
from robo_rl.config.registry import load
from robo_rl_sim2real.cli.status_display import status_line
from robo_rl_sim2real.core.clock import Clock
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.diagnostics import Level
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.node.node import Node
from robo_rl_sim2real.node.settings import DeploySettings
from robo_rl_sim2real.transport.base import COMMAND, ServiceResponse
from robo_rl_sim2real.transport.loopback import Bus, Loopback
from robo_rl_sim2real.watchdog.guard import Unguarded, WatchdogLostError

ROBOT = load("robots", "panda")
NAMES = tuple(joint.name for joint in ROBOT.actuated_joints)
SETTINGS = {
    "robot": {"name": "panda"},
    "observe": {"pos": {"topic": "/joint_states", "field": "position"}},
    "lifecycle": {"ramp_s": 0.2},
}


class Gone(Unguarded):
    """A watchdog that has ended."""

    def check(self) -> None:
        raise WatchdogLostError("the watchdog ended")


class World:
    """A panda that stays where it is, a node, and who looks after both, on one clock."""

    def __init__(self, path: Path, *, dry_run: bool = False) -> None:
        self.now_s, self.number = 50.0, 0
        bus = Bus(lambda: self.now_s)
        self.keeper = Loopback(bus, "keeper")
        self.joints = self.keeper.create_publisher("/joint_states", MsgType.JOINT_STATES)
        self.reports, self.beats = list[Reading](), list[Reading]()
        self.keeper.subscribe("/diagnostics", MsgType.DIAGNOSTICS, self.reports.append, COMMAND)
        self.keeper.subscribe("/policy/heartbeat", MsgType.COUNT, self.beats.append, COMMAND)
        self.keeper.subscribe(ROBOT.topics.command, MsgType.ARRAY, lambda _: None, COMMAND)
        self.bundle = make_bundle(path / "bundle", ROBOT, 0.0)
        clock = Clock(lambda: self.now_s, lambda s: None)
        settings = validate_strict(SETTINGS, DeploySettings)
        self.node = Node(settings, self.bundle, Loopback(bus), clock=clock, dry_run=dry_run)

    def run(self, seconds: float, *, silent: bool = False) -> None:
        for _ in range(round(seconds / self.node.ticks.dt_s)):
            if not silent:
                self.joints.send(Reading({"position": ROBOT.home_ctrl}, NAMES, 0.0))
            self.number += 1
            self.node.tick(self.number)
            self.now_s += self.node.ticks.dt_s

    def ask(self, what: str) -> ServiceResponse:
        """A service's answer; the loop goes on meanwhile, as it does on a robot."""
        found: list[ServiceResponse] = []
        asking = threading.Thread(
            target=lambda: found.append(self.keeper.call_service(f"/robo_rl/{what}"))
        )
        asking.start()
        while asking.is_alive():
            self.run(self.node.ticks.dt_s)
        return found[0]

    def ask_in_silence(self, what: str) -> str:
        """Why a request is not granted while the robot says nothing."""
        self.node.request(what)
        self.run(2 * self.node.ticks.dt_s, silent=True)
        return self.node.health.problem

    def said(self, name: str) -> tuple[Level, str, dict[str, str]]:
        """Of one part, in the last report."""
        report = self.reports[-1]
        row, fields = report.names.index(name), report.fields
        ours = fields["row"] == row
        values = dict(zip(fields["key"][ours], fields["value"][ours], strict=True))
        return Level(fields["level"][row]), str(fields["message"][row]), values


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.node.close()


def test_it_comes_once_a_second_while_nothing_changes(world: World):
    world.run(0.5)
    before = len(world.reports)
    world.run(5.0)
    assert len(world.reports) - before == 5


def test_it_comes_at_once_when_a_level_changes_and_says_what(world: World):
    world.run(0.5)
    assert world.said("policy")[:2] == (Level.OK, "inactive")
    assert world.ask("activate").success
    world.run(0.5)
    before = len(world.reports)
    world.ask("stop")
    world.run(world.node.ticks.dt_s)
    assert len(world.reports) > before
    assert world.said("policy")[:2] == (Level.ERROR, "faulted: stop requested")


def test_a_topic_that_falls_silent_is_stale_at_once(world: World):
    world.run(2.0)
    level, _, values = world.said("reading /joint_states")
    assert level is Level.OK
    assert float(values["rate_hz"]) == pytest.approx(ROBOT.rates.control_hz, rel=0.1)
    world.run(3.5 * world.node.ticks.dt_s + 0.1, silent=True)
    level, message, values = world.said("reading /joint_states")
    assert (level, message) == (Level.STALE, "nothing new")
    assert float(values["age_ms"]) > 100.0


def test_a_topic_on_which_nothing_ever_came_says_so(world: World):
    world.run(0.1, silent=True)
    assert world.said("reading /joint_states")[:2] == (Level.STALE, "nothing came")


def test_it_counts_what_health_counts_and_names_the_bundle(world: World):
    world.node.request("dance")
    world.run(1.5)
    values = world.said("policy")[2]
    assert values["refused_requests"] == "1"
    assert "no request 'dance'" in values["problem"]
    assert world.said("bundle")[2] == {
        "robot": "panda",
        "task": "made_up",
        "sha256": world.bundle.digest,
    }


def test_a_mismatch_of_qos_is_a_warning(world: World):
    world.keeper.create_publisher("/policy/control", MsgType.FLAG)
    world.run(1.5)
    level, message, _ = world.said("transport")
    assert level is Level.WARN
    assert "/policy/control" in message


def test_the_heartbeat_is_the_loops_own_and_ends_with_it(world: World):
    world.run(2.0)
    numbers = [int(beat.fields["data"]) for beat in world.beats]
    assert len(numbers) == pytest.approx(20, abs=2)
    assert (np.diff(numbers) > 0).all()
    world.now_s += 5.0  # the loop hangs
    time.sleep(0.3)
    assert len(world.beats) == len(numbers)


def test_services_ask_for_what_topics_ask_for(world: World):
    world.run(0.5)
    refused = world.ask("deactivate")
    assert not refused.success
    assert "cannot deactivate while inactive" in refused.message
    assert world.ask("activate").success
    world.run(0.5)
    assert world.node.runtime.state is State.RUNNING
    assert world.ask("deactivate").success
    assert world.node.runtime.state is State.INACTIVE


def test_a_stop_is_kept_until_it_is_reset_even_where_the_loop_hangs(world: World):
    world.run(0.5)
    assert world.keeper.call_service("/robo_rl/stop").success  # no tick meanwhile
    assert "a stop was requested" in world.ask("activate").message
    assert world.ask("reset").success
    assert world.ask("activate").success


def test_an_emergency_stop_is_called_one_until_a_reset_whatever_else_is_asked_for(world: World):
    world.run(0.5)
    estop = world.keeper.create_publisher("/estop", MsgType.FLAG)
    for pressed in (True, False):
        estop.send(Reading({"data": np.asarray(pressed)}, (), 0.0))
    assert world.keeper.call_service("/robo_rl/stop").success
    assert "the emergency stop was pressed" in world.ask("activate").message
    assert world.ask("reset").success
    assert world.keeper.call_service("/robo_rl/stop").success
    assert "a stop was requested" in world.ask("activate").message


def test_a_problem_is_over_once_the_policy_goes_on(world: World):
    world.run(0.3, silent=True)
    assert "none on /joint_states" in world.ask_in_silence("activate")
    assert "none on /joint_states" in world.node.health.problem
    world.run(0.2)
    assert world.ask("activate").success
    world.run(0.5)
    assert world.node.health.problem == ""
    world.node.request("dance")
    world.run(1.0)
    assert "no request 'dance'" in world.node.health.problem
    world.run(6.0)
    assert world.node.health.problem == ""


def test_a_fault_keeps_its_cause_until_a_reset(world: World):
    world.run(0.3)
    assert world.ask("activate").success
    world.run(0.5)
    world.node.guard = Gone()
    world.run(2.0, silent=True)  # readings are stale by now, which is not what happened
    assert world.node.health.reason == "watchdog lost"
    assert "the watchdog ended" in world.node.health.problem
    assert world.ask("reset").success
    assert (world.node.health.reason, world.node.health.problem) == ("", "")


def test_a_dry_run_says_that_it_is_one(tmp_path: Path):
    world = World(tmp_path, dry_run=True)
    world.run(0.5)
    assert world.said("policy")[1] == "inactive (dry run: no command is sent)"
    assert world.said("policy")[2]["dry_run"] == "true"
    assert status_line(world.node).startswith("dry run: no command is sent · inactive")
    world.node.close()


def test_a_reset_does_not_release_a_stop_that_is_still_pressed(world: World):
    estop = world.keeper.create_publisher("/estop", MsgType.FLAG)
    estop.send(Reading({"data": np.asarray(True)}, (), 0.0))
    world.run(0.5)
    assert world.keeper.call_service("/robo_rl/stop").success
    assert "is pressed" in world.ask("reset").message
