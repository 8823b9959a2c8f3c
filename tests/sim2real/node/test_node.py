"""A bundle on a robot over a transport: requests, states, commands, and what goes wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_bundles import make_bundle, with_items
from small_limits import excess

from robo_rl.config.models import validate, validate_strict
from robo_rl.config.registry import load
from robo_rl.core.errors import BundleError, ConfigError
from robo_rl.core.spec import TensorSpec
from robo_rl_sim2real.cli.request_sequence import RequestSequence
from robo_rl_sim2real.cli.status_display import status_line
from robo_rl_sim2real.control.commands.braking import Motion
from robo_rl_sim2real.control.commands.publishers import PartlySentError
from robo_rl_sim2real.control.inference import InferenceRequest
from robo_rl_sim2real.core.clock import Clock
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.node.command_sender import MAX_UNDELIVERED
from robo_rl_sim2real.node.node import Node
from robo_rl_sim2real.node.settings import DeploySettings
from robo_rl_sim2real.transport.base import COMMAND, LATCHED, Qos
from robo_rl_sim2real.transport.loopback import Bus, Loopback
from robo_rl_sim2real.watchdog.guard import Unguarded

ROBOT = load("robots", "panda")
HOME = ROBOT.home_ctrl
NAMES = tuple(joint.name for joint in ROBOT.actuated_joints)
DT_S = 1.0 / ROBOT.rates.control_hz
WATCHED = 4


def settings(**fields: Any) -> DeploySettings:
    usual = {
        "robot": {"name": "panda"},
        "observe": {"pos": {"topic": "/joint_states", "field": "position"}},
        "lifecycle": {"ramp_s": 0.2, "resume_s": 0.0},
    }
    return validate_strict({**usual, **fields}, DeploySettings)


class World:
    """The panda on a bus and a clock of its own; it is where it was last told to be."""

    def __init__(
        self, path: Path, offset: float = 0.002, bus: Bus | None = None, **fields: Any
    ) -> None:
        self.now_s, self.suspended_s, self.bus = 50.0, 0.0, bus or Bus()
        self.bus.now_s = lambda: self.now_s
        robot = Loopback(self.bus)
        self.joints = robot.create_publisher("/joint_states", MsgType.JOINT_STATES)
        self.estop = robot.create_publisher("/estop", MsgType.FLAG)
        self.control = robot.create_publisher("/policy/control", MsgType.TEXT)
        self.commands, self.states = list[Reading](), list[str]()
        points = fields.get("command", {}).get("kind") == "trajectory"
        topic = ROBOT.topics.trajectory if points else ROBOT.topics.command
        kind = MsgType.TRAJECTORY if points else MsgType.ARRAY
        self.controller = Loopback(self.bus)
        self.controller.subscribe(topic, kind, self.commands.append, COMMAND)
        robot.subscribe(
            "/policy/state",
            MsgType.TEXT,
            lambda r: self.states.append(str(r.fields["data"])),
            LATCHED,
        )
        dry_run, items = fields.pop("dry_run", False), fields.pop("items", {})
        self.node = Node(
            settings(**fields),
            with_items(path / "shown", make_bundle(path / "bundle", ROBOT, offset), **items),
            Loopback(self.bus),
            clock=Clock(self.read, lambda s: None, lambda stamp_s: stamp_s + self.suspended_s),
            dry_run=dry_run,
        )
        self.pos, self.number = HOME.copy(), 0
        self.run(WATCHED)

    def read(self) -> float:
        """The clock that advances while the computer is suspended; the bus stamps without it."""
        return self.now_s + self.suspended_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def say(self, text: str) -> None:
        self.control.send(Reading({"data": np.asarray(text)}, (), 0.0))

    def press(self, pressed: bool) -> None:
        self.estop.send(Reading({"data": np.asarray(pressed)}, (), 0.0))

    def run(self, ticks: int, *, silent: bool = False) -> State:
        for _ in range(ticks):
            if not silent:
                self.joints.send(Reading({"position": self.pos[::-1]}, NAMES[::-1], 0.0))
            self.number += 1
            self.node.tick(self.number)
            if self.commands and "data" in self.commands[-1].fields:
                self.pos = self.commands[-1].fields["data"]
            self.now_s += DT_S
        return self.node.runtime.state


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.node.close()


def test_it_does_what_it_is_asked_and_says_where_it_stands(world: World):
    assert world.run(5) is State.INACTIVE
    assert world.commands == []
    world.say("activate")
    assert world.run(40) is State.RUNNING
    moved = np.stack([command.fields["data"] for command in world.commands])
    assert (np.diff(moved[5:], axis=0)[:, :7] > 0.0005).all()
    world.say("deactivate")
    world.run(40)
    assert world.states == ["inactive", "ramping", "running", "inactive"]
    told = len(world.commands)
    world.run(20)
    assert len(world.commands) == told
    limits = world.node.runtime.parts.safety.limits
    assert excess(np.stack([c.fields["data"] for c in world.commands]), limits) < 1e-6


def test_it_goes_to_its_start_and_begins_there_where_both_are_wanted(world: World):
    world.pos = HOME + np.array([0.6, -0.4, 0, 0, 0, 0, 0, 0])
    world.run(2 * WATCHED)
    world.node.runtime.reset()  # somebody brought it there
    world.run(2 * WATCHED)
    starter = RequestSequence(world.node, ["home", "activate"])
    for _ in range(400):
        world.run(1)
        starter.poll()
    assert world.states == ["inactive", "homing", "inactive", "ramping", "running"]
    assert starter.wanted == []


def test_who_is_at_its_start_has_gone_there(world: World):
    """The way home is over within the period of its request."""
    starter = RequestSequence(world.node, ["home"])
    for _ in range(400):
        world.run(1)
        starter.poll()
    assert starter.wanted == []
    assert world.node.requests.granted["home"] == 1


def test_merged_chunks_rest_on_older_ones(tmp_path: Path):
    """Actions of a whole horizon are merged, so the oldest of them is that old."""
    bundle = make_bundle(tmp_path / "bundle", ROBOT)
    contract = bundle.manifest.contract
    ticks = (contract.exec_horizon, contract.horizon)
    assert ticks[0] < ticks[1]
    age_s = 0.5 * sum(ticks) / contract.act.rate_hz
    fields = {"safety": {"max_chunk_age_s": age_s}}
    Node(settings(**fields), bundle, Loopback(Bus())).close()
    with pytest.raises(ConfigError, match=r"safety\.max_chunk_age_s.*merged"):
        Node(settings(**fields, chunks={"merge": "ensemble"}), bundle, Loopback(Bus()))


def test_a_request_that_cannot_be_granted_is_told(world: World):
    for text, problem in (
        ("reset", "cannot reset while inactive"),
        ("dance", "no request 'dance'"),
    ):
        world.say(text)
        world.run(1)
        assert problem in world.node.health.problem
    assert world.node.health.refused == 2


def test_the_emergency_stop_latches(world: World):
    world.say("activate")
    world.run(20)
    world.press(True)
    assert world.run(1) is State.FAULTED
    assert world.node.health.reason == "emergency stop"
    world.press(False)
    assert world.run(30) is State.FAULTED
    world.say("activate")
    world.run(1)
    assert "cannot activate while faulted" in world.node.health.problem
    world.say("reset")
    assert world.run(1) is State.INACTIVE


def test_a_stop_that_was_pressed_for_a_moment_between_two_ticks_is_a_stop(world: World):
    world.say("activate")
    world.run(20)
    world.press(True)
    world.press(False)
    assert world.run(1) is State.FAULTED


def test_a_stop_that_was_pressed_before_it_began_keeps_it_from_beginning(world: World):
    world.press(True)
    world.press(False)
    world.say("activate")
    assert world.run(5) is State.INACTIVE
    assert world.commands == []
    world.say("reset")
    world.say("activate")
    assert world.run(20) is State.RUNNING


def test_who_has_to_say_that_nobody_pressed_it_and_falls_silent_presses_it(tmp_path: Path):
    world = World(tmp_path, estop_timeout_s=0.2)
    world.say("activate")
    assert world.run(1) is State.INACTIVE
    assert "no message on the emergency-stop topic" in world.node.health.problem
    world.press(False)
    world.say("activate")
    assert world.run(3) is not State.FAULTED
    assert world.run(4) is State.FAULTED
    world.node.close()


def test_a_stop_that_was_pressed_before_the_node_began_is_heard(tmp_path: Path):
    """Of a latched publisher that says a press once."""
    bus = Bus()
    button = Loopback(bus).create_publisher("/estop", MsgType.FLAG, LATCHED)
    button.send(Reading({"data": np.asarray(True)}, (), 0.0))
    world = World(tmp_path, bus=bus, shared_topics=["/estop"])
    world.say("activate")
    world.run(1)
    assert world.node.runtime.state is State.INACTIVE
    for _ in range(2):
        world.run(30)
        world.say("activate")
        assert world.run(1) is not State.RAMPING
    button.send(Reading({"data": np.asarray(False)}, (), 0.0))
    world.say("reset")
    world.run(1)
    world.say("activate")
    assert world.run(20) is State.RUNNING
    world.node.close()


def test_a_latched_stop_that_never_said_anything_does_not_hold_the_robot(tmp_path: Path):
    bus = Bus()
    Loopback(bus).create_publisher("/estop", MsgType.FLAG, LATCHED)
    world = World(tmp_path, bus=bus, shared_topics=["/estop"])
    world.node.publishers.poll()  # as its own thread does while it runs
    world.run(12)
    world.say("activate")
    assert world.run(20) is State.RUNNING
    world.node.close()


def test_a_request_that_does_not_fit_the_state_asks_nothing_of_the_graph(world: World):
    world.say("activate")
    assert world.run(20) is State.RUNNING

    def asked(topic: str, *, action: bool = False) -> Any:
        raise AssertionError(topic)

    world.node.transport.endpoints = asked  # type: ignore[method-assign]
    world.say("activate")
    assert world.run(2) is State.RUNNING
    assert "activate" in world.node.health.problem


@pytest.mark.parametrize("what", ["activate", "home"])
def test_a_start_asks_nothing_of_the_graph_while_the_robot_comes_to_rest(world: World, what: str):
    world.say("activate")
    assert world.run(20) is State.RUNNING

    def asked(topic: str, *, action: bool = False) -> Any:
        raise AssertionError(topic)

    world.node.transport.endpoints = asked  # type: ignore[method-assign]
    world.say("deactivate")
    world.say(what)
    assert world.run(1) is State.INACTIVE
    assert f"cannot {what}: the robot is still coming to rest" in world.node.health.problem


def test_a_gap_before_it_comes_to_rest_is_one_of_missed_periods(world: World):
    world.node.clock = world.node.ticks.clock = Clock(lambda: world.now_s, world.sleep)
    number = 0
    for number in world.node.ticks:
        world.joints.send(Reading({"position": world.pos[::-1]}, NAMES[::-1], 0.0))
        world.node.tick(number)
        if number == 2:
            world.node.request("activate")
        if world.commands:
            world.pos = world.commands[-1].fields["data"]
        if number == 40:
            break
    seen = list[int]()
    tick = world.node.tick
    world.node.tick = lambda number: (seen.append(number), tick(number))[1]  # type: ignore
    world.now_s += 10 * DT_S
    world.node.come_to_rest()
    assert seen[0] == number + 10
    assert world.node.runtime.state is State.INACTIVE


def test_what_leaves_comes_to_rest_and_is_not_asked_back(world: World):
    world.say("activate")
    world.run(30)
    world.say("activate")
    world.node.clock = world.node.ticks.clock = Clock(lambda: world.now_s, world.sleep)
    tick = world.node.tick

    def asked_again(number: int) -> Any:
        world.joints.send(Reading({"position": world.pos[::-1]}, NAMES[::-1], 0.0))
        world.node.request("activate")
        output = tick(number)
        world.pos = world.commands[-1].fields["data"]
        return output

    world.node.tick = asked_again
    granted = world.node.requests.granted["activate"]
    world.node.come_to_rest()
    assert world.node.requests.granted["activate"] == granted
    assert world.node.runtime.state is State.INACTIVE
    sent = np.stack([command.fields["data"] for command in world.commands])
    np.testing.assert_array_equal(sent[-1], sent[-2])


def test_a_transport_that_breaks_does_not_take_the_loop_with_it(world: World):
    world.say("activate")
    world.run(20)

    def broken(motion: Motion) -> None:
        raise OSError("no route")

    world.node._out.send = broken  # type: ignore[method-assign]
    assert world.run(3) is State.FAULTED
    assert "no route" in world.node.health.problem


def test_silence_is_a_hold(world: World):
    world.say("activate")
    world.run(20)
    assert world.run(10, silent=True) is State.HOLDING
    assert world.run(10) is State.RUNNING


def test_holds_are_counted_by_reason_and_stay_in_the_last_line(world: World):
    world.say("activate")
    world.run(20)
    assert "hold" not in status_line(world.node)
    for _ in range(2):
        world.run(10, silent=True)
        world.run(20)
    world.say("deactivate")
    assert world.run(40) is State.INACTIVE
    health = world.node.health
    assert (health.reason, health.holds) == ("", 2)
    assert health.hold_reasons == {"stale observation": 2}
    assert " missed · 2 holds: 2 stale observation · " in status_line(world.node)


def test_whatever_breaks_inside_the_robot_comes_to_rest(world: World):
    world.say("activate")
    world.run(20)

    def broken(question: InferenceRequest) -> None:
        raise RuntimeError("the graph fell over")

    world.node.runtime.parts.policy.inference.submit = broken
    assert world.run(20) is State.FAULTED
    assert "RuntimeError: the graph fell over" in world.node.health.problem
    sent = np.stack([command.fields["data"] for command in world.commands])
    assert excess(sent, world.node.runtime.parts.safety.limits) < 1e-6
    np.testing.assert_array_equal(sent[-1], sent[-2])


def test_a_frozen_camera_holds_the_robot_within_a_second_and_is_named(tmp_path: Path):
    observe = {
        "pos": {"topic": "/joint_states", "field": "position"},
        "rgb": {"topic": "/front", "msg_type": "sensor_msgs/msg/Image"},
    }
    rgb = TensorSpec(shape=(8, 8, 3), dtype="uint8")
    world = World(tmp_path, observe=observe, items={"rgb": rgb})
    camera = Loopback(world.bus).create_publisher("/front", MsgType.IMAGE)
    rng, inbox, seen = np.random.default_rng(0), world.node.inbox, list[State]()

    def show(image: np.ndarray, *, frozen: bool) -> None:
        """Send it, and wait until it is ready, or refused if it may be: that takes real time."""
        camera.send(Reading({"image": image}, (), 0.0))
        until = time.monotonic() + 10.0
        while not (frozen and inbox.problem(["/front"])) and time.monotonic() < until:
            newest = inbox.get("/front")
            if newest is not None and newest.stamp_s == world.now_s:
                return
            time.sleep(0.001)

    def look(ticks: int, *, frozen: bool) -> State:
        image = rng.integers(0, 256, (16, 16, 3), np.uint8)
        for _ in range(ticks):
            fresh = rng.integers(0, 256, (16, 16, 3), np.uint8)
            show(image if frozen else fresh, frozen=frozen)
            seen.append(world.run(1))
        return seen[-1]

    look(1, frozen=False)
    world.say("activate")
    assert look(20, frozen=False) is State.RUNNING
    assert look(round(1.0 / DT_S), frozen=True) is State.HOLDING
    assert world.node.health.reason == "stale observation"
    assert "/front: the camera is frozen" in world.node.health.problem
    assert look(10, frozen=False) is State.RUNNING
    world.node.close()


def test_a_dry_run_sends_nothing(tmp_path: Path):
    world = World(tmp_path, dry_run=True)
    world.say("activate")
    assert world.run(20) is State.RUNNING
    assert world.commands == []
    world.node.close()


def test_a_trajectory_controller_gets_one_point_a_tick(tmp_path: Path):
    world = World(tmp_path, 0.0, command={"kind": "trajectory"})
    world.say("activate")
    world.run(10)
    found = world.commands[-1]
    assert found.names == NAMES
    np.testing.assert_allclose(found.fields["positions"], HOME[None], atol=1e-6)
    np.testing.assert_allclose(found.fields["times"], [DT_S])
    world.node.close()


def test_an_array_comes_in_the_order_of_the_controller(tmp_path: Path):
    world = World(tmp_path, 0.0, command={"joints": NAMES[::-1]})
    world.run(1)
    world.say("activate")
    world.run(1)
    np.testing.assert_allclose(world.commands[0].fields["data"], HOME[::-1], atol=1e-6)
    world.node.close()
    with pytest.raises(ConfigError, match=r"command.joints; expected"):
        World(tmp_path, 0.0, command={"joints": NAMES[:-1]})


def test_health_counts(world: World):
    world.say("activate")
    world.run(30)
    health = world.node.health
    assert (health.ticks, health.refused, health.state) == (30 + WATCHED, 0, "running")
    assert 0 < health.clamped < 30


def test_a_bundle_for_another_robot_is_refused(tmp_path: Path):
    bundle = make_bundle(tmp_path / "bundle", ROBOT, rate_hz=50.0)
    with pytest.raises(BundleError, match="act rate_hz: expected 50, found 20"):
        Node(settings(), bundle, Loopback(Bus()))


def test_a_stop_is_not_forgiven_by_what_was_asked_before_it(world: World):
    world.say("activate")
    world.run(20)
    world.press(True)
    world.run(5)
    world.press(False)
    world.say("reset")
    world.say("activate")
    world.press(True)  # between two ticks, and only for a moment
    world.press(False)
    assert world.run(1) is State.FAULTED
    assert world.node.runtime.life.stopped
    world.say("reset")
    assert world.run(1) is State.INACTIVE


def test_what_could_not_be_sent_is_sent_before_anything_else(tmp_path: Path):
    world = World(tmp_path, offset=0.01)
    world.say("activate")
    world.run(30)
    send, failures = world.node._out.send, iter([True])

    def once(motion: Motion) -> None:
        if next(failures, False):
            raise OSError("no buffer space")
        send(motion)

    world.node._out.send = once  # type: ignore[method-assign]
    assert world.run(40) is State.FAULTED
    assert "no buffer space" in world.node.health.problem
    limits = world.node.runtime.parts.safety.limits
    assert excess(np.stack([c.fields["data"] for c in world.commands]), limits) < 1e-6
    world.node.close()


class Beats(Unguarded):
    """A guard that keeps when commands were reported."""

    def __init__(self) -> None:
        self.sending = list[bool]()

    def report(self, motion: Motion, *, sending: bool) -> None:
        self.sending.append(sending)


def test_after_several_commands_that_were_not_sent_it_begins_at_the_last_that_was(tmp_path: Path):
    world = World(tmp_path, offset=0.3)
    world.say("activate")
    world.run(30)
    guard = world.node.guard = Beats()
    send, before = world.node._out.send, len(world.commands)

    def fail(motion: Motion) -> None:
        raise OSError("no buffer space")

    world.node._out.send = fail  # type: ignore[method-assign]
    assert world.run(20) is State.FAULTED
    assert len(guard.sending) == 2 * MAX_UNDELIVERED
    world.node._out.send = send  # type: ignore[method-assign]
    world.run(3)
    limits = world.node.runtime.parts.safety.limits
    last, first = (world.commands[i].fields["data"] for i in (before - 1, before))
    assert np.abs(first - last).max() <= (limits.acceleration * limits.dt_s**2).max() + 1e-9
    world.node.close()


def test_joints_that_hear_their_command_are_not_taken_back_by_those_that_do_not(tmp_path: Path):
    """First some topics fail, and then all of them."""
    world = World(tmp_path, offset=0.3)
    world.say("activate")
    world.run(30)
    moving, told = world.node.runtime.parts.safety.limiter, [world.pos]
    errors = [PartlySentError("OSError: no buffer space")] * 10 + [OSError("no buffer space")] * 10

    def fail(motion: Motion) -> None:
        raise errors.pop(0) if len(errors) > 1 else errors[0]

    world.node._out.send = fail  # type: ignore[method-assign]
    for _ in range(8):
        world.run(1)
        told.append(moving.motion.pos)
    assert world.node.runtime.state is State.FAULTED
    forward = (np.diff(told, axis=0) * (told[1] - told[0])).min()
    assert forward >= -1e-9
    world.node.close()


def test_where_somebody_else_commands_it_does_not_begin(world: World):
    topic = ROBOT.topics.command
    other = Loopback(world.bus)
    other.create_publisher(topic, MsgType.ARRAY)
    world.say("activate")
    assert world.run(3) is State.INACTIVE
    assert "cannot activate: another node publishes the commands" in world.node.health.problem
    assert f"{topic}: published by " in world.node.health.problem
    other.close()
    world.say("activate")
    assert world.run(20) is State.RUNNING


def test_somebody_else_who_commands_it_later_holds_it(world: World):
    topic = ROBOT.topics.command
    world.say("activate")
    assert world.run(20) is State.RUNNING
    other = Loopback(world.bus)
    other.create_publisher(topic, MsgType.ARRAY)
    world.node.publishers.poll()  # as its own thread does while it runs
    assert world.run(3) is State.HOLDING
    assert world.node.health.reason == "graph not as required"
    assert f"{topic}: published by " in world.node.health.problem
    other.close()
    world.node.publishers.poll()
    assert world.run(20) is State.RUNNING


def test_who_allows_others_to_command_it_is_not_held(tmp_path: Path):
    world = World(tmp_path, command={"exclusive": False})
    Loopback(world.bus).create_publisher(ROBOT.topics.command, MsgType.ARRAY)
    world.say("activate")
    assert world.run(20) is State.RUNNING
    world.node.close()


def test_an_emergency_stop_whose_publisher_leaves_holds_it(tmp_path: Path):
    """Without one from the beginning it starts and goes on."""
    world = World(tmp_path)
    button = Loopback(world.bus)
    world.bus.mouths["/estop"].clear()
    world.say("activate")
    assert world.run(20) is State.RUNNING
    world.node.publishers.poll()
    assert world.run(3) is State.RUNNING
    world.say("deactivate")
    assert world.run(60) is State.INACTIVE
    button.create_publisher("/estop", MsgType.FLAG)
    world.say("activate")
    assert world.run(20) is State.RUNNING
    button.close()
    world.node.publishers.poll()
    assert world.run(3) is State.HOLDING
    assert "/estop: its publisher left" in world.node.health.problem
    Loopback(world.bus).create_publisher("/estop", MsgType.FLAG)
    world.node.publishers.poll()
    assert world.run(20) is State.RUNNING
    world.node.close()


def test_a_robot_that_was_moved_while_nobody_heard_commands_is_told_to_stay(world: World):
    """The controller comes back half a second before the graph is looked at again."""
    topic = ROBOT.topics.command
    world.say("activate")
    assert world.run(20) is State.RUNNING
    world.controller.close()
    world.node.publishers.poll()
    world.run(5)
    told = len(world.commands)
    hand = world.pos.copy()
    for _ in range(25):  # somebody guides the first joint by 0.4 rad
        hand[0] += 0.016
        world.pos = hand.copy()
        world.run(1)
    assert len(world.commands) == told
    assert world.node.runtime.state is State.FAULTED
    assert "'panda_joint1' moved while no node received" in world.node.health.problem
    Loopback(world.bus).subscribe(topic, MsgType.ARRAY, world.commands.append, COMMAND)
    world.pos = hand.copy()
    world.run(1)
    share = world.node.runtime.parts.safety.cfg.yield_distance
    joint = ROBOT.actuated_joints[0]
    within = share * (joint.high - joint.low)
    np.testing.assert_allclose(world.commands[-1].fields["data"][0], hand[0], atol=within)
    world.say("reset")
    world.node.publishers.poll()
    assert world.run(60) is State.INACTIVE


def test_a_second_publisher_of_readings_keeps_it_from_beginning_and_holds_it(tmp_path: Path):
    world = World(tmp_path)
    other = Loopback(world.bus)
    other.create_publisher("/joint_states", MsgType.JOINT_STATES)
    world.say("activate")
    assert world.run(3) is State.INACTIVE
    assert "cannot activate: readings of several sources" in world.node.health.problem
    assert "/joint_states: 2 nodes publish it" in world.node.health.problem
    other.close()
    world.say("activate")
    assert world.run(20) is State.RUNNING
    Loopback(world.bus).create_publisher("/joint_states", MsgType.JOINT_STATES)
    world.node.publishers.poll()  # as its own thread does while it runs
    assert world.run(3) is State.HOLDING
    assert "2 nodes publish it" in world.node.health.problem
    world.node.close()


def test_several_publishers_are_let_be_where_the_settings_say_so(tmp_path: Path):
    world = World(tmp_path, shared_topics=["/joint_states"])
    Loopback(world.bus).create_publisher("/joint_states", MsgType.JOINT_STATES)
    world.say("activate")
    assert world.run(20) is State.RUNNING
    world.node.close()


@pytest.mark.parametrize(
    ("kind", "qos", "shared", "problem"),
    [
        (MsgType.FLAG, Qos(reliable=False), ["/estop"], "hears nothing from a best-effort writer"),
        (MsgType.TEXT, COMMAND, ["/estop"], "expected std_msgs/msg/Bool, found std_msgs/msg/Str"),
        (MsgType.FLAG, COMMAND, [], "2 nodes publish it"),
    ],
)
def test_an_emergency_stop_that_may_be_missed_keeps_it_from_beginning_and_holds_it(
    tmp_path: Path, kind: MsgType, qos: Qos, shared: list[str], problem: str
):
    world = World(tmp_path, shared_topics=shared)
    other = Loopback(world.bus)
    other.create_publisher("/estop", kind, qos)
    world.say("activate")
    assert world.run(3) is State.INACTIVE
    assert "cannot activate: the emergency stop is not reliable" in world.node.health.problem
    assert problem in world.node.health.problem
    other.close()
    world.say("activate")
    assert world.run(20) is State.RUNNING
    Loopback(world.bus).create_publisher("/estop", kind, qos)
    world.node.publishers.poll()  # as its own thread does while it runs
    assert world.run(3) is State.HOLDING
    assert problem in world.node.health.problem
    world.node.close()


def test_a_latched_press_of_before_its_discovery_stops_a_robot_that_moves(tmp_path: Path):
    """A volatile subscription does not receive it, and the loop asks nothing of the graph."""
    world = World(tmp_path, shared_topics=["/estop"])
    world.say("activate")
    assert world.run(20) is State.RUNNING
    Loopback(world.bus).create_publisher("/estop", MsgType.FLAG, LATCHED)
    press = Reading({"data": np.asarray(True)}, (), world.now_s)
    world.bus.mouths["/estop"][-1].said.append(press)  # said while nobody was matched
    assert world.run(1) is State.RUNNING
    until = time.monotonic() + 10.0
    with world.node.publishers.running():
        while not world.node.runtime.life.stopped and time.monotonic() < until:
            time.sleep(0.01)
    assert world.run(1) is State.FAULTED
    assert world.node.health.reason == "emergency stop"
    world.node.close()


def test_commands_that_nobody_receives_keep_it_from_beginning_and_hold_it(world: World):
    topic = ROBOT.topics.command
    world.controller.close()
    world.say("activate")
    assert world.run(3) is State.INACTIVE
    assert "cannot activate: the commands have no receiver" in world.node.health.problem
    assert f"{topic}: no node receives the commands" in world.node.health.problem
    other = Loopback(world.bus)
    other.subscribe(topic, MsgType.ARRAY, world.commands.append, COMMAND)
    world.say("activate")
    assert world.run(20) is State.RUNNING
    other.close()
    world.node.publishers.poll()  # as its own thread does while it runs
    assert world.run(3) is State.HOLDING
    assert f"{topic}: no node receives the commands" in world.node.health.problem
    Loopback(world.bus).subscribe(topic, MsgType.ARRAY, world.commands.append, COMMAND)
    world.node.publishers.poll()
    assert world.run(20) is State.RUNNING


def test_a_dry_run_needs_no_receiver(tmp_path: Path):
    world = World(tmp_path, dry_run=True)
    world.controller.close()
    world.say("activate")
    assert world.run(20) is State.RUNNING
    world.node.close()


def test_a_request_that_waited_for_the_loop_does_not_move_the_robot(world: World):
    world.say("activate")
    world.now_s += 1.5
    assert world.run(5) is State.INACTIVE
    assert "asked for 1.5 s ago" in world.node.health.problem


def test_a_request_that_a_stopped_process_receives_late_does_not_move_the_robot(world: World):
    """It is received once the process continues, so its age is not known."""
    world.now_s += 12.0
    world.say("activate")
    assert world.run(5) is State.INACTIVE
    assert "the control loop stood still for 12." in world.node.health.problem
    world.run(round(1.0 / DT_S))
    world.say("activate")
    assert world.run(20) is State.RUNNING


def test_a_start_that_the_graph_delays_does_not_move_the_robot(world: World, monkeypatch):
    """Whoever asked for it may stand beside the robot by the time of the answer."""
    asked = world.node.transport.endpoints

    def late(topic: str, *, action: bool = False):
        world.now_s += 0.5
        return asked(topic, action=action)

    with monkeypatch.context() as slow:
        slow.setattr(world.node.transport, "endpoints", late)
        world.say("activate")
        assert world.run(5) is State.INACTIVE
        assert "cannot activate: the graph answered late" in world.node.health.problem
    world.run(round(1.5 / DT_S))
    world.say("activate")
    assert world.run(20) is State.RUNNING


def test_a_start_pose_outside_the_limits_is_refused(tmp_path: Path):
    bundle = make_bundle(tmp_path / "bundle", ROBOT)
    Node(settings(start_pose=list(HOME)), bundle, Loopback(Bus())).close()
    wrong = [
        ({"start_pose": list(np.degrees(HOME))}, r"'panda_joint4'.*-114\.592 degrees are -2 rad"),
        (
            {"start_pose": list(HOME), "safety": {"position_margin": 0.05}},
            r"'panda_finger_joint1'.*0\.002 to 0\.038 m, found 0\.04",
        ),
    ]
    for fields, problem in wrong:
        with pytest.raises(ConfigError, match=problem):
            Node(settings(**fields), bundle, Loopback(Bus()))


@pytest.mark.parametrize("name", ["estop", "state", "diagnostics", "heartbeat"])
def test_a_topic_that_must_exist_has_a_name(name: str):
    with pytest.raises(ConfigError, match=f"{name}: "):
        validate({"robot": {"name": "panda"}, "observe": {}, name: ""}, DeploySettings)


def test_without_a_topic_of_requests_nothing_listens_for_them(tmp_path: Path):
    world = World(tmp_path, control="")
    assert world.bus.ears[""] == []
    world.say("activate")
    assert world.run(5) is State.INACTIVE
    world.node.request("activate")
    assert world.run(40) is State.RUNNING
    world.node.close()


def test_after_a_suspension_of_the_computer_nothing_from_before_is_acted_on(world: World):
    world.say("activate")
    world.run(40)
    last = world.commands[-1].fields["data"]
    world.suspended_s += 60.0
    assert world.run(1, silent=True) is State.HOLDING
    assert world.node.health.reason == "control loop stalled"
    world.run(3, silent=True)
    assert world.node.health.reason == "stale observation"
    np.testing.assert_allclose(world.commands[-1].fields["data"], last, atol=1e-9)
    assert world.run(40) is State.RUNNING


def test_a_request_from_before_a_suspension_is_void_and_a_later_one_is_granted(world: World):
    world.node.request("activate")
    world.suspended_s += 60.0
    assert world.run(10) is State.INACTIVE
    assert "it was asked for 60.0 s ago" in world.node.health.problem
    world.run(100)
    world.node.request("activate")
    assert world.run(40) is State.RUNNING


def test_the_publishers_are_unknown_after_a_suspension_until_they_are_looked_at(world: World):
    with world.node.publishers.running():
        assert world.node.publishers.problems.readings == ""
        world.suspended_s += 60.0
        assert "a query hangs for 60 s" in world.node.publishers.problems.readings
