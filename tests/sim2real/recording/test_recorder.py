"""The recorder: all that a node tells is in the bag, and its troubles are not the node's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_disk import mount_small_disk
from small_flights import DT_S, HOME, NAMES, WATCHED, Flight, sent_of

from robo_rl.config.models import validate
from robo_rl.core.errors import ConfigError
from robo_rl_sim2real.control.events import Tick
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.recording import topics
from robo_rl_sim2real.recording.recorder import FlightRecorder

rosbags = pytest.importorskip("rosbags.highlevel", reason="pip install 'robo-rl[dds]'")


def read(bag: Path) -> dict[str, list[tuple[int, Any]]]:
    """Topic → (time, message), as any ROS tool would read it."""
    found: dict[str, list[tuple[int, Any]]] = {}
    with rosbags.AnyReader([bag]) as reader:
        for way, time_ns, cdr in reader.messages():
            message = reader.deserialize(cdr, way.msgtype)
            found.setdefault(way.topic, []).append((time_ns, message))
    return found


def texts(messages: list[tuple[int, Any]]) -> list[dict[str, Any]]:
    return [json.loads(message.data) for _, message in messages]


def test_what_was_sent_is_recorded_bit_by_bit(tmp_path: Path):
    flight = Flight(tmp_path)
    with flight.recorded() as recorder:
        flight.run(3)
        flight.node.request("activate")
        flight.run(60)
    found = read(recorder.bags[0])
    sent = np.stack([message.position for _, message in found[topics.SENT]])
    assert sent.dtype == np.float64
    np.testing.assert_array_equal(sent, sent_of(flight))
    assert tuple(found[topics.SENT][0][1].name) == NAMES
    asked = np.stack([message.position for _, message in found[topics.ASKED]])
    clamped = np.stack([message.data for _, message in found[topics.CLAMPED]])
    np.testing.assert_array_equal(clamped, np.abs(sent - asked))
    assert clamped.max() > 0


def test_every_reading_keeps_its_values_and_the_time_at_which_it_came(tmp_path: Path):
    flight = Flight(tmp_path)
    with flight.recorded() as recorder:
        sent_s = flight.now_s
        flight.run(20)
    found = read(recorder.bags[0])["/joint_states"]
    times = np.array([time_ns for time_ns, _ in found])
    np.testing.assert_allclose(np.diff(times), DT_S * 1e9, atol=2)
    assert tuple(found[0][1].name) == NAMES[::-1]
    np.testing.assert_array_equal(found[0][1].position, HOME[::-1])
    stamp = found[0][1].header.stamp  # the sender's, on its own clock
    assert stamp.sec + 1e-9 * stamp.nanosec == pytest.approx(sent_s, abs=1e-6)


def test_a_chunk_is_recorded_with_the_tick_that_it_rests_on(tmp_path: Path):
    flight = Flight(tmp_path)
    with flight.recorded() as recorder:
        flight.run(3)
        flight.node.request("activate")
        flight.run(20)
    found = read(recorder.bags[0])
    ticks = {time_ns: fields for (time_ns, _), fields in _ticks(found)}
    for time_ns, message in found[topics.CHUNK]:
        fields = ticks[time_ns]
        assert fields["chunk"]["tick"] == fields["tick"]  # asked and answered within one
        assert fields["chunk"]["observed_ns"] == fields["observed_ns"]
        assert [dim.size for dim in message.layout.dim] == [8, 8]
        assert message.data.shape == (64,)
    assert len(found[topics.CHUNK]) == 5


def _ticks(found: dict[str, list[tuple[int, Any]]]) -> Any:
    return zip(found[topics.TICK], texts(found[topics.TICK]), strict=True)


def test_states_requests_and_who_commands_are_events(tmp_path: Path):
    flight = Flight(tmp_path)
    with flight.recorded() as recorder:
        flight.run(1)
        for what in ("dance", "activate"):
            flight.node.request(what)
        flight.run(20)
        flight.held = True
        flight.run(2)
        flight.held = False
        flight.press(True)
        flight.run(1)
    found = read(recorder.bags[0])
    events = [(event["event"], event["what"]) for event in texts(found[topics.EVENT])]
    assert [what for event, what in events if event == "state"] == [
        *("inactive", "ramping", "running", "teleoperated", "faulted")
    ]
    assert ("request", "activate") in events
    assert any(event == "refused" and "no request 'dance'" in what for event, what in events)
    assert [what for event, what in events if event == "control"] == ["human", "policy"]
    by = [fields["by"] for fields in texts(found[topics.TICK])]
    assert by == ["policy"] * 21 + ["human"] * 2 + ["policy"]


def test_a_recording_says_whose_it_is(tmp_path: Path):
    flight = Flight(tmp_path)
    with flight.recorded() as recorder:
        flight.run(30)
    found = read(recorder.bags[0])
    (about,) = texts(found[topics.RUN])
    assert about["bundle"] == flight.bundle.digest
    assert about["contract"]["robot"] == "panda"
    assert about["settings"]["observe"]["pos"]["topic"] == "/joint_states"
    status = found[topics.HEALTH][0][1].status[0]
    assert {value.key for value in status.values} >= {"state", "missed", "clamped"}
    assert len(found[topics.HEALTH]) == 2  # in one and a half seconds


def test_a_dry_run_has_sent_nothing(tmp_path: Path):
    flight = Flight(tmp_path, dry_run=True)
    with flight.recorded() as recorder:
        flight.run(2)
        flight.node.request("activate")
        flight.run(10)
    found = read(recorder.bags[0])
    assert topics.SENT not in found
    assert topics.ASKED in found


def test_a_ring_keeps_what_came_before_a_fault_and_a_little_after(tmp_path: Path):
    flight = Flight(tmp_path, mode="ring", ring_s=1.0, post_trigger_s=0.5)
    with flight.recorded() as recorder:
        flight.run(2)
        flight.node.request("activate")
        flight.run(60)
        assert recorder.bags == []
        flight.press(True)
        flight.run(60)
        assert flight.node.runtime.state is State.FAULTED
    assert recorder.problems() == []
    assert len(recorder.bags) == 1
    ticks = texts(read(recorder.bags[0])[topics.TICK])
    fault = next(fields["tick"] for fields in ticks if fields["state"] == "faulted")
    numbers = [fields["tick"] for fields in ticks]
    assert fault == WATCHED + 63
    assert (numbers[0], numbers[-1]) == (fault - 20, fault + 10)
    assert numbers == list(range(numbers[0], numbers[-1] + 1))


def test_a_ring_holds_the_health_of_each_time(tmp_path: Path):
    flight = Flight(tmp_path, mode="ring", ring_s=10.0, post_trigger_s=0.5)
    with flight.recorded() as recorder:
        flight.run(2)
        flight.node.request("activate")
        flight.run(60)
        flight.press(True)
        flight.run(60)
    said = read(recorder.bags[0])[topics.HEALTH]
    ticks = [
        int(next(pair.value for pair in message.status[0].values if pair.key == "ticks"))
        for _, message in said
    ]
    assert len(said) >= 3
    assert ticks == sorted(set(ticks))


def test_every_fault_is_a_recording_of_its_own(tmp_path: Path):
    flight = Flight(tmp_path, mode="ring", ring_s=1.0, post_trigger_s=0.2)
    with flight.recorded() as recorder:
        for _ in range(2):
            flight.node.request("activate")
            flight.run(20)
            flight.press(True)
            flight.run(5)
            flight.press(False)
            flight.node.request("reset")
            flight.run(30)
    assert recorder.problems() == []
    assert len(recorder.bags) == 2
    first, second = (texts(read(bag)[topics.TICK]) for bag in recorder.bags)
    assert first[-1]["tick"] < second[0]["tick"]


def test_a_ring_holds_no_more_memory_than_it_may(tmp_path: Path):
    flight = Flight(tmp_path, mode="ring", ring_mb=1, post_trigger_s=0.0)
    image = np.random.default_rng(0).integers(0, 255, (300, 300, 3), np.uint8)
    with flight.recorded() as recorder:
        for number in range(10):
            recorder.on_message("/big", MsgType.IMAGE, Reading({"image": image}, (), 50.0 + number))
        flight.node.request("record")
        flight.run(1)
    assert recorder.problems() == []
    assert len(read(recorder.bags[0])["/big"]) == 3


def test_a_ring_is_written_when_it_is_asked_for(tmp_path: Path):
    flight = Flight(tmp_path, mode="ring", post_trigger_s=0.0)
    with flight.recorded() as recorder:
        flight.run(10)
        flight.node.request("record")
        flight.run(10)
    assert len(recorder.bags) == 1


def test_a_ring_without_a_fault_leaves_nothing(tmp_path: Path):
    flight = Flight(tmp_path, mode="ring")
    with flight.recorded():
        flight.run(10)
    assert list((tmp_path / "recordings").iterdir()) == []


def test_what_does_not_fit_is_dropped_counted_and_told(tmp_path: Path):
    flight = Flight(tmp_path, backlog_mb=1)
    with flight.recorded() as recorder:
        image = np.zeros((1000, 1000, 3), np.uint8)
        for _ in range(3):
            recorder.on_message("/big", MsgType.IMAGE, Reading({"image": image}, (), 50.0))
        flight.run(5)
        assert "3 not recorded" in recorder.problems()[0]
    assert "/big" not in read(recorder.bags[0])
    assert len(read(recorder.bags[0])[topics.TICK]) == 5


def test_the_robot_goes_on_when_the_disk_is_full(tmp_path: Path):
    with mount_small_disk(tmp_path / "disk") as disk:
        flight = Flight(tmp_path, folder=str(disk))
        with flight.recorded() as recorder:
            flight.run(2)
            flight.node.request("activate")
            noise = np.random.default_rng(0).integers(0, 255, (600, 1000, 3), np.uint8)
            for _ in range(3):
                recorder.on_message("/big", MsgType.IMAGE, Reading({"image": noise}, (), 50.0))
            flight.run(40)
            assert flight.node.runtime.state is State.RUNNING
        assert "recording stopped: No space left on device" in recorder.problems()


@pytest.mark.parametrize("record", [{}, {"mode": "ring"}])
def test_a_folder_that_cannot_be_written_is_an_error_at_the_start(tmp_path: Path, record):
    (tmp_path / "file").write_text("")
    flight = Flight(tmp_path, folder=str(tmp_path / "file" / "under"), **record)
    with (
        pytest.raises(ConfigError, match=r"cannot be recorded to: Not a directory"),
        flight.recorded(),
    ):
        pass


def test_a_disk_that_is_nearly_full_is_left_alone(tmp_path: Path):
    flight = Flight(tmp_path, min_free_mb=1 << 40)
    with pytest.raises(ConfigError, match="are to stay so"), flight.recorded():
        pass


def test_a_listener_that_breaks_breaks_nothing_else(tmp_path: Path):
    class Broken:
        def on_message(self, topic: str, kind: MsgType, reading: Reading) -> None:
            raise RuntimeError("no")

        def on_tick(self, tick: Tick) -> None:
            raise RuntimeError("no")

        def on_event(self, event: str, what: str) -> None:
            raise RuntimeError("no")

        def problems(self) -> list[str]:
            return []

    flight = Flight(tmp_path)
    with flight.recorded() as recorder:
        flight.node.listeners.add(Broken())
        flight.run(3)
        assert flight.node.listeners.problems() == ["a listener broke: RuntimeError: no"]
    assert len(read(recorder.bags[0])[topics.TICK]) == 3


@pytest.mark.parametrize("topic", ["", "sim/episode", "/a b", "/sim/episode/"])
def test_a_name_that_is_no_topic_is_refused(topic: str):
    with pytest.raises(ConfigError, match="extra_topics"):
        validate({"extra_topics": {topic: "std_msgs/msg/String"}}, FlightRecorder.Config)


def test_a_topic_that_cannot_be_heard_is_told_and_leaves_a_closed_bag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def subscribe(*_: object) -> None:
        raise RuntimeError("Precondition not met")

    flight = Flight(tmp_path)
    monkeypatch.setattr(flight.node.transport, "subscribe", subscribe)
    says = "record.extra_topics: '/sim/episode' cannot be .*RuntimeError: Precondition not met"
    with pytest.raises(ConfigError, match=says), flight.recorded():
        pass
    (bag,) = (tmp_path / "recordings").iterdir()
    assert [*read(bag)] == [topics.RUN]
