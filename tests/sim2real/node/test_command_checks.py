"""Whether anybody receives the commands is found on every kind of command topic."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from small_domains import free_domain

from robo_rl_sim2real.control.commands.topic import CommandTopic
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.node.command_checks import (
    RefusedGoals,
    exclusive_check,
    missing_receivers,
    receiver_checks,
)
from robo_rl_sim2real.transport.base import COMMAND, LATCHED, GoalCounts, Transport
from robo_rl_sim2real.transport.loopback import Bus, Loopback

ARRAY = CommandTopic("/commands", MsgType.ARRAY, ("a",), (0,), 0.05)
GOALS = CommandTopic("/arm/follow", MsgType.TRAJECTORY, ("a",), (0,), 0.05, action=True)

Pair = tuple[Transport, Transport]


@pytest.fixture(params=["loopback", "dds"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """The node's transport, and the controller's."""
    if request.param == "loopback":
        bus = Bus()
        made: Pair = Loopback(bus), Loopback(bus)
    else:
        pytest.importorskip("cyclonedds", reason="pip install 'robo-rl[dds]'")
        from robo_rl_sim2real.transport.dds.transport import Dds

        cfg = Dds.Config(domain=free_domain(), services=True)
        made = Dds(cfg, "node"), Dds(cfg, "controller")
    yield made
    for transport in made:
        transport.close()


def wait(done: Callable[[], bool]) -> bool:
    until = time.monotonic() + 10.0
    while not done() and time.monotonic() < until:
        time.sleep(0.02)
    return done()


@pytest.mark.parametrize("outlet", [ARRAY, GOALS])
def test_a_controller_is_found_and_missed(pair: Pair, outlet: CommandTopic):
    node, controller = pair
    if outlet.action:
        node.create_goal_publisher(outlet.topic)
    else:
        node.create_publisher(outlet.topic, outlet.kind)
    missing = f"{outlet.topic}: no node receives the commands"
    assert missing_receivers(node, [outlet]) == [missing]
    if outlet.action:
        controller.create_goal_server(outlet.topic, lambda _: None)
    else:
        controller.subscribe(outlet.topic, outlet.kind, lambda _: None, COMMAND)
    assert wait(lambda: missing_receivers(node, [outlet]) == [])
    controller.close()
    assert wait(lambda: missing_receivers(node, [outlet]) == [missing])


def test_a_subscriber_that_hears_no_command_is_no_receiver():
    bus = Bus()
    node = Loopback(bus)
    Loopback(bus).subscribe("/commands", MsgType.TRAJECTORY, lambda _: None, COMMAND)
    (found,) = missing_receivers(node, [ARRAY])
    assert "subscribes to trajectory_msgs/msg/JointTrajectory, commands are std_msgs" in found
    Loopback(bus).subscribe("/commands", MsgType.ARRAY, lambda _: None, LATCHED)
    assert missing_receivers(node, [ARRAY])
    Loopback(bus).subscribe("/commands", MsgType.ARRAY, lambda _: None, COMMAND)
    assert missing_receivers(node, [ARRAY]) == []


def test_every_topic_of_a_command_needs_a_receiver():
    bus = Bus()
    gripper = ARRAY._replace(topic="/gripper")
    Loopback(bus).subscribe("/commands", MsgType.ARRAY, lambda _: None, COMMAND)
    found = missing_receivers(Loopback(bus), [ARRAY, gripper])
    assert found == ["/gripper: no node receives the commands"]


def test_goals_are_refused_where_most_are_since_the_last_look():
    class Counts:
        now = GoalCounts(0, 0)

        def count_goals(self) -> GoalCounts:
            return self.now

    counts = Counts()
    found = RefusedGoals({"/arm/follow": counts})
    for sent, refused, says in (
        (0, 0, ""),
        (10, 9, "/arm/follow: 9 of 10 goals were refused"),
        (20, 10, ""),  # one more of ten
        (20, 10, ""),
        (30, 15, "/arm/follow: 5 of 10 goals were refused"),
        (30, 16, ""),  # a late answer
    ):
        counts.now = GoalCounts(sent, refused)
        assert found.poll() == says


def test_what_is_unheard_as_a_whole_is_told_apart_from_what_is_unheard_in_part():
    bus = Bus()
    whole, some, _ = receiver_checks([ARRAY, ARRAY._replace(topic="/gripper")], {})
    node = Loopback(bus)
    assert (whole.about, some.about) == ("commands", "others")
    assert "/commands: no node" in whole.find(node)
    assert "/gripper: no node" in whole.find(node)
    assert some.find(node) == ""
    Loopback(bus).subscribe("/commands", MsgType.ARRAY, lambda _: None, COMMAND)
    assert whole.find(node) == ""
    assert some.find(node) == "/gripper: no node receives the commands"


def test_others_publish_commands_once_there_are_more_than_the_watchdog_has():
    bus, allowed = Bus(), [0]
    check = exclusive_check([ARRAY], lambda: allowed[0])
    node = Loopback(bus)
    assert check.find(node) == ""
    Loopback(bus).create_publisher("/commands", MsgType.ARRAY)
    assert check.find(node) == "/commands: published by unnamed node"
    allowed[0] = 1
    assert check.find(node) == ""
