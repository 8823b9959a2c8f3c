"""Goals over DDS are those of ROS 2, bit for bit; who refuses them or is not there is told."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from small_domains import free_domain

pytest.importorskip("cyclonedds", reason="pip install 'robo-rl[dds]'")

from cyclonedds.domain import DomainParticipant

from robo_rl.core.errors import ConfigError
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.node.command_checks import RefusedGoals
from robo_rl_sim2real.transport.base import SEND_GOAL
from robo_rl_sim2real.transport.dds import goals as dds_goals
from robo_rl_sim2real.transport.dds.action_interfaces import (
    SEND,
    register_action_types,
    service_hash,
)
from robo_rl_sim2real.transport.dds.codec import Codec
from robo_rl_sim2real.transport.dds.framing import ServiceInterface, ServiceServer, wait_until
from robo_rl_sim2real.transport.dds.transport import Dds
from robo_rl_sim2real.transport.warm_up import blank_message

ACTION = "/arm/follow_joint_trajectory"
WAY = Reading({"positions": np.array([[0.25]]), "times": np.array([0.05])}, ("elbow",), 0.0)

HASHES = {
    "": "b13789dddc325a7a962825c45e28c77d37237ec129dd0c34dc5994562938c57f",
    "_Request": "179c93691f1f6d1d115881ff88c3917b7cc6eac2ba4bf56766cc7c4389e19ef1",
    "_Response": "e6a48ba740ae254500129a877f0b071be8663a115da1a539b74599cc97921fbf",
}
"""As rosidl wrote them for control_msgs/action/FollowJointTrajectory_SendGoal (REP 2016)."""


@pytest.fixture
def node() -> Iterator[Dds]:
    made = Dds(Dds.Config(domain=free_domain(), services=True), "node")
    yield made
    made.close()


@pytest.mark.parametrize("distro", ["humble", "jazzy", "kilted"])
def test_hashes_are_those_of_ros(distro: str):
    codec = Codec(distro)
    register_action_types(codec.store)
    for part in ("_Request", "_Response"):
        assert codec.type_hash(f"{SEND}{part}") == f"RIHS01_{HASHES[part]}"
    expected = "" if distro == "humble" else f"RIHS01_{HASHES['']}"
    assert service_hash(codec.store) == expected


def watching(out: Any) -> RefusedGoals:
    return RefusedGoals({ACTION: out})


def test_bytes_on_the_wire_are_who_asks_and_the_goal():
    codec = Codec("jazzy")
    register_action_types(codec.store)
    answer = replace(blank_message(codec.store, f"{SEND}_Response"), accepted=True)
    sample = codec.frame(f"{SEND}_Response", 7, -2, answer)
    wire = sample.serialize()
    assert wire == b"\0\1\0\0" + struct.pack("<Qq?xxxiI", 7, -2, True, 0, 0)
    for data in (wire, b"\0\0\0\0" + struct.pack(">Qq?xxxiI", 7, -2, True, 0, 0)):
        found: Any = codec.framed(f"{SEND}_Response").deserialize(data)
        assert (found.guid, found.seq, found.message.accepted) == (7, -2, True)


def test_it_is_off_unless_asked_for_and_says_why():
    transport = Dds(Dds.Config(domain=free_domain()), "arm")
    why = r"has its services off; requests in .* exhaust a Fast DDS .* transport\.services=true"
    for ask in (
        lambda: transport.create_goal_publisher(ACTION),
        lambda: transport.create_goal_server(ACTION, print),
    ):
        with pytest.raises(ConfigError, match=why):
            ask()
    transport.close()


def test_an_answer_that_cannot_be_read_is_told_and_stops_nothing(node: Dds, monkeypatch):
    out = node.create_goal_publisher(ACTION)

    def broken(reader: object) -> list[object]:
        raise ValueError("too short")

    monkeypatch.setattr(dds_goals, "take_samples", broken)
    out.send(WAY)
    assert node.problems() == [f"{ACTION}: an answer to a goal: ValueError: too short"]
    assert watching(out).poll() == ""


def test_goals_that_are_refused_are_counted(node: Dds):
    codec = Codec("jazzy")
    register_action_types(codec.store)
    response = f"{SEND}_Response"
    types = ServiceInterface(codec.framed(f"{SEND}_Request"), codec.framed(response), "")
    refusal = blank_message(codec.store, response)
    participant, out = DomainParticipant(node.cfg.domain), node.create_goal_publisher(ACTION)
    asked = list[Any]()
    server = ServiceServer(
        participant,
        f"{ACTION}{SEND_GOAL}",
        types,
        lambda goal: asked.append(goal) or codec.frame(response, goal.guid, goal.seq, refusal),
    )
    try:

        def refused() -> bool:
            out.send(WAY)
            return any("were refused" in problem for problem in node.problems())

        assert wait_until(refused, 10.0)
        watch = watching(out)

        def seen() -> bool:
            out.send(WAY)
            return "goals were refused" in watch.poll()

        assert wait_until(seen, 10.0)
        assert isinstance(out, dds_goals.GoalWriter)
        before = out.count_goals()
        for _ in range(60):  # between two looks at the answers
            answered = len(asked)
            out.send(WAY)
            assert wait_until(lambda answered=answered: len(asked) > answered, 10.0)
        assert wait_until(lambda: out.count_goals().refused - before.refused >= 60, 10.0)
    finally:
        server.close()


def test_a_goal_that_does_not_fit_takes_no_other_with_it_and_is_refused(node: Dds):
    robot, heard = Dds(node.cfg, "robot"), list[Reading]()

    def put(reading: Reading) -> None:
        if reading.names == ("wrist",):
            raise ValueError("no wrist here")
        heard.append(reading)

    robot.create_goal_server(ACTION, put)
    out = node.create_goal_publisher(ACTION)
    assert wait_until(lambda: not node.problems(), 10.0)
    for names in (("wrist",), ("elbow",), ("elbow",)):
        out.send(WAY._replace(names=names))
    assert wait_until(lambda: len(heard) == 2, 10.0)
    assert wait_until(lambda: node.problems() == [f"{ACTION}: 1 goals of 3 were refused"], 10.0)
    assert robot.problems() == [f"{ACTION}: ValueError: no wrist here"]
    assert watching(out).poll() == ""  # one of three
    robot.close()
