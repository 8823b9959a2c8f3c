"""What every transport must do: loopback, DDS and, where it imports, rclpy."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from robo_rl.core.errors import RoboRlError
from robo_rl_sim2real.messages.diagnostics import Level, Status, statuses_to_reading
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.messages.trajectory import FOLLOW
from robo_rl_sim2real.transport.base import COMMAND, LATCHED, NO_TAKER, SENSOR, Qos, ServiceResponse
from robo_rl_sim2real.transport.loopback import Loopback

NAMES = ("shoulder", "elbow")
READINGS = {
    MsgType.JOINT_STATES: Reading({"position": np.array([0.1, -2.0])}, NAMES, 0.0),
    MsgType.ARRAY: Reading({"data": np.array([1.5, -0.25, 1e-9])}, (), 0.0),
    MsgType.POSE: Reading(
        {"position": np.array([1.0, 2.0, 3.0]), "orientation": np.array([0.5, -0.5, 0.5, 0.5])},
        (),
        0.0,
    ),
    MsgType.TWIST: Reading(
        {
            "linear": np.array([0.1, -0.2, 0.3]),
            "angular": np.array([0.0, 1e-9, -1.5]),
            "frame": np.asarray("base_link"),
        },
        (),
        0.0,
    ),
    MsgType.IMAGE: Reading(
        {"image": np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)}, (), 0.0
    ),
    MsgType.COMPRESSED: Reading(
        {"data": np.arange(999).astype(np.uint8), "format": np.asarray("bgr8; jpeg")}, (), 0.0
    ),
    MsgType.CAMERA_INFO: Reading(
        {"k": np.arange(9.0).reshape(3, 3), "size": np.array([480.0, 640.0])}, (), 0.0
    ),
    MsgType.TRAJECTORY: Reading(
        {"positions": np.array([[0.1, 0.2], [0.3, 0.4]]), "times": np.array([0.02, 1.5])},
        NAMES,
        0.0,
    ),
    MsgType.FLAG: Reading({"data": np.asarray(True)}, (), 0.0),
    MsgType.TEXT: Reading({"data": np.asarray("lift the cube")}, (), 0.0),
    MsgType.JOY: Reading({"axes": np.array([0.5, -1.0]), "buttons": np.array([0, 1])}, (), 0.0),
    MsgType.COUNT: Reading({"data": np.asarray(2**63 + 1, np.uint64)}, (), 0.0),
    MsgType.DIAGNOSTICS: statuses_to_reading(
        [
            Status("loop", Level.OK, "running", {"ticks": "7", "missed": "0"}),
            Status("readings", Level.STALE, "nothing came", {}),
            Status("robot", Level.ERROR, "it does not follow", {"joint": "elbow"}),
        ],
        "panda",
    ),
}


class Heard:
    """What came, and waiting for it."""

    def __init__(self) -> None:
        self.readings: list[Reading] = []
        self.changed = threading.Condition()

    def put(self, reading: Reading) -> None:
        with self.changed:
            self.readings.append(reading)
            self.changed.notify_all()

    def wait(self, number: int = 1, say: Callable[[], None] | None = None) -> list[Reading]:
        """Until so many came, saying something again and again if that helps."""
        until = time.monotonic() + 10.0
        while len(self.readings) < number and time.monotonic() < until:
            if say is not None:
                say()
            with self.changed:
                self.changed.wait(0.05)
        assert len(self.readings) >= number
        return self.readings


@pytest.mark.parametrize("kind", list(MsgType))
def test_what_is_heard_is_what_was_said_when_it_came(make_transport, kind):
    robot, node, heard = make_transport("robot"), make_transport("node"), Heard()
    node.subscribe("/topic", kind, heard.put)
    out = robot.create_publisher("/topic", kind)
    began = time.monotonic()
    found = heard.wait(say=lambda: out.send(READINGS[kind]))[-1]
    assert began <= found.stamp_s <= time.monotonic()
    assert found.names == READINGS[kind].names
    assert found.fields.keys() == READINGS[kind].fields.keys()
    for name, value in READINGS[kind].fields.items():
        np.testing.assert_array_equal(found.fields[name], value)


def test_reliable_ones_come_all_and_in_order(make_transport):
    robot, node, heard = make_transport("robot"), make_transport("node"), Heard()
    node.subscribe("/count", MsgType.ARRAY, heard.put, Qos(depth=500))
    out = robot.create_publisher("/count", MsgType.ARRAY, Qos(depth=500))
    heard.wait(say=lambda: out.send(Reading({"data": np.array([-1.0])}, (), 0.0)))
    for i in range(200):
        out.send(Reading({"data": np.array([float(i)])}, (), 0.0))
    until = time.monotonic() + 10.0
    while heard.readings[-1].fields["data"][0] < 199 and time.monotonic() < until:
        time.sleep(0.01)
    seen = [float(r.fields["data"][0]) for r in heard.readings]
    assert seen[seen.index(0.0) :] == list(range(200))


def test_who_comes_later_hears_what_is_latched_and_nothing_else(make_transport):
    robot, node = make_transport("robot"), make_transport("node")
    for topic, qos in (("/latched", LATCHED), ("/volatile", COMMAND)):
        robot.create_publisher(topic, MsgType.TEXT, qos).send(READINGS[MsgType.TEXT])
    latched, volatile = Heard(), Heard()
    node.subscribe("/volatile", MsgType.TEXT, volatile.put, COMMAND)
    node.subscribe("/latched", MsgType.TEXT, latched.put, LATCHED)
    assert str(latched.wait()[0].fields["data"]) == "lift the cube"
    assert not volatile.readings


def test_qos_that_do_not_match_are_told_and_nothing_comes(make_transport):
    robot, node, heard = make_transport("robot"), make_transport("node"), Heard()
    node.subscribe("/topic", MsgType.ARRAY, heard.put, COMMAND)
    out = robot.create_publisher("/topic", MsgType.ARRAY, SENSOR)
    until = time.monotonic() + 10.0
    while not (robot.problems() and node.problems()) and time.monotonic() < until:
        out.send(READINGS[MsgType.ARRAY])
        time.sleep(0.02)
    assert all("/topic" in found[0] for found in (robot.problems(), node.problems()))
    assert not heard.readings


def test_a_sensor_reader_hears_both_kinds_of_writers(make_transport):
    node, heard = make_transport("node"), Heard()
    node.subscribe("/topic", MsgType.ARRAY, heard.put, SENSOR)
    for number, qos in enumerate((COMMAND, SENSOR), start=1):
        robot = make_transport(f"robot{number}")
        out = robot.create_publisher("/topic", MsgType.ARRAY, qos)
        heard.readings.clear()
        heard.wait(say=lambda out=out: out.send(READINGS[MsgType.ARRAY]))
        robot.close()
    assert node.problems() == []


def test_what_is_sent_may_be_changed_afterwards(make_transport):
    robot, node, heard = make_transport("robot"), make_transport("node"), Heard()
    node.subscribe("/topic", MsgType.ARRAY, heard.put)
    out, data = robot.create_publisher("/topic", MsgType.ARRAY), np.array([7.0])
    heard.wait(say=lambda: out.send(Reading({"data": data}, (), 0.0)))
    data[:] = 0.0
    assert heard.readings[0].fields["data"][0] == 7.0


def test_what_is_closed_says_nothing_more(make_transport):
    robot, node, heard = make_transport("robot"), make_transport("node"), Heard()
    node.subscribe("/topic", MsgType.ARRAY, heard.put)
    out = robot.create_publisher("/topic", MsgType.ARRAY)
    heard.wait(say=lambda: out.send(READINGS[MsgType.ARRAY]))
    robot.close()
    with pytest.raises(RoboRlError, match="closed"):
        out.send(READINGS[MsgType.ARRAY])


def test_one_callback_that_fails_does_not_make_the_others_deaf(make_transport):
    robot, node, heard = make_transport("robot"), make_transport("node"), Heard()

    def broken(reading: Reading) -> None:
        raise ValueError("not mine")

    node.subscribe("/bad", MsgType.ARRAY, broken)
    node.subscribe("/good", MsgType.ARRAY, heard.put)
    bad, good = (robot.create_publisher(topic, MsgType.ARRAY) for topic in ("/bad", "/good"))
    until = time.monotonic() + 10.0
    while not node.problems() and time.monotonic() < until:
        bad.send(READINGS[MsgType.ARRAY])
        time.sleep(0.02)
    assert "not mine" in node.problems()[0]
    heard.wait(say=lambda: good.send(READINGS[MsgType.ARRAY]))


def test_it_knows_who_else_publishes_and_hears(make_transport):
    robot, node = make_transport("robot"), make_transport("node")
    robot.create_publisher("/joints", MsgType.JOINT_STATES, SENSOR)
    robot.subscribe("/command", MsgType.ARRAY, print, COMMAND)
    node.subscribe("/joints", MsgType.JOINT_STATES, print)
    until = time.monotonic() + 10.0
    while not node.endpoints("/command") and time.monotonic() < until:
        time.sleep(0.02)
    ((writer,), (reader,)) = node.endpoints("/joints"), node.endpoints("/command")
    assert (writer.type, writer.writes) == (MsgType.JOINT_STATES.value, True)
    assert (reader.type, reader.writes) == (MsgType.ARRAY.value, False)
    assert not writer.qos.reliable
    assert reader.qos.reliable
    assert not reader.qos.latched
    assert node.endpoints("/nothing") == []


def test_who_has_left_is_forgotten(make_transport):
    robot, node = make_transport("robot"), make_transport("node")
    robot.create_publisher("/state", MsgType.TEXT, LATCHED)
    until = time.monotonic() + 10.0
    while not node.endpoints("/state") and time.monotonic() < until:
        time.sleep(0.02)
    assert node.endpoints("/state")[0].qos.latched
    robot.close()
    while node.endpoints("/state") and time.monotonic() < until:
        time.sleep(0.02)
    assert node.endpoints("/state") == []


def test_over_dds_nodes_are_known_by_name(make_transport):
    robot, node = make_transport("robot"), make_transport("node")
    if isinstance(robot, Loopback):
        pytest.skip("members of a bus have no names")
    robot.create_publisher("/joints", MsgType.JOINT_STATES, SENSOR)
    until = time.monotonic() + 10.0
    while [end.node for end in node.endpoints("/joints")] != ["/robot"]:
        assert time.monotonic() < until
        time.sleep(0.02)


def test_goals_come_as_trajectories_in_the_place_of_each_other(make_goal_transport):
    robot, node, heard = make_goal_transport("robot"), make_goal_transport("node"), Heard()
    out = node.create_goal_publisher("/arm/follow_joint_trajectory")
    assert node.problems() == [f"/arm/follow_joint_trajectory: {NO_TAKER}"]
    robot.create_goal_server("/arm/follow_joint_trajectory", heard.put)
    way = READINGS[MsgType.TRAJECTORY]
    began = time.monotonic()
    found = heard.wait(say=lambda: out.send(way))[-1]
    assert began <= found.stamp_s <= time.monotonic()
    assert found.names == way.names
    for name, value in way.fields.items():
        np.testing.assert_array_equal(found.fields[name], value)
    before = len(heard.readings)
    later = way._replace(fields={**way.fields, "times": np.array([0.5, 0.75])})
    out.send(later)
    heard.wait(before + 1)
    np.testing.assert_array_equal(heard.readings[-1].fields["times"], [0.5, 0.75])
    assert node.problems() == robot.problems() == []
    node.close()
    with pytest.raises(RoboRlError, match="closed"):
        out.send(way)


def test_it_knows_who_else_pursues_and_obeys(make_goal_transport):
    robot, other, node = (make_goal_transport(name) for name in ("robot", "other", "node"))
    robot.create_goal_server("/arm/follow", print)
    other.create_goal_publisher("/arm/follow")
    node.create_goal_publisher("/arm/follow")
    until = time.monotonic() + 10.0
    while len(node.endpoints("/arm/follow", action=True)) < 2 and time.monotonic() < until:
        time.sleep(0.02)
    ends = node.endpoints("/arm/follow", action=True)
    assert sorted(end.writes for end in ends) == [False, True]
    assert {end.type for end in ends} == {FOLLOW}
    assert node.endpoints("/arm", action=True) == node.endpoints("/arm/follow") == []


def test_a_service_answers_whoever_asks_by_its_full_name(make_transport):
    robot, node = make_transport("robot"), make_transport("node")
    asked: list[int] = []

    def call() -> ServiceResponse:
        asked.append(len(asked))
        return ServiceResponse(len(asked) > 1, f"{len(asked)} times")

    robot.create_service("~/reset", call)
    assert node.call_service("/robot/reset", 10.0) == ServiceResponse(False, "1 times")
    assert node.call_service("/robot/reset", 10.0) == ServiceResponse(True, "2 times")
    assert robot.call_service("~/reset", 10.0) == ServiceResponse(True, "3 times")


def test_a_service_that_breaks_says_so_and_goes_on(make_transport):
    robot, node = make_transport("robot"), make_transport("node")

    def broken() -> ServiceResponse:
        raise ValueError("not mine")

    robot.create_service("~/broken", broken)
    for _ in range(2):
        answer = ServiceResponse(False, "ValueError: not mine")
        assert node.call_service("/robot/broken", 10.0) == answer


def test_nobody_answers_for_a_service_that_nobody_has(make_transport):
    with pytest.raises(RoboRlError, match=r"service '/robot/reset': no answer within 0\.2 s"):
        make_transport("node").call_service("/robot/reset", 0.2)


def test_a_service_that_waits_keeps_nothing_else_from_coming(make_transport):
    robot, node, heard = make_transport("robot"), make_transport("node"), Heard()
    free, answers = threading.Event(), list[ServiceResponse]()
    node.create_service("~/slow", lambda: ServiceResponse(free.wait(20.0), "at last"))
    node.create_service("~/stop", lambda: ServiceResponse(True, "stopped"))
    node.subscribe("/topic", MsgType.ARRAY, heard.put)
    out = robot.create_publisher("/topic", MsgType.ARRAY)
    asking = threading.Thread(target=lambda: answers.append(robot.call_service("/node/slow", 20.0)))
    asking.start()
    heard.wait(say=lambda: out.send(READINGS[MsgType.ARRAY]))
    assert robot.call_service("/node/stop", 10.0) == ServiceResponse(True, "stopped")
    assert not answers
    free.set()
    asking.join()
    assert answers == [ServiceResponse(True, "at last")]
