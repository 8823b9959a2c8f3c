"""Recordings to datasets: what was seen and sent, when, and what of it counts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_flights import Flight, sent_of

from robo_rl.config.component import component
from robo_rl.core.errors import DataError
from robo_rl.core.images import resize
from robo_rl.core.spec import TensorSpec
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.transport.loopback import Loopback

pytest.importorskip("rosbags", reason="pip install 'robo-rl[dds]'")

from robo_rl_sim2real.recording.message_encoder import MessageEncoder

RAMP = 5  # control periods of it, in 0.2 s


def convert(run: Path, out: Path, **fields: Any) -> ZarrStore:
    component("converters").make({"name": "rosbag", **fields}).build().convert(run, out)
    return ZarrStore.open(out)


def fly(tmp_path: Path, course: Any = None, **fields: Any) -> Flight:
    """Two seconds of the policy, or a course of one's own."""
    flight = Flight(tmp_path, **fields)
    with flight.recorded():
        flight.run(3)
        flight.node.request("activate")
        if course is None:
            flight.run(40)
        else:
            course(flight)
    return flight


def test_actions_are_what_was_sent_and_observations_what_came_before(tmp_path: Path):
    flight = fly(tmp_path)
    store = convert(tmp_path / "recordings", tmp_path / "data.zarr")
    (episode,), rows, sent = store.episodes, store.read(), sent_of(flight)
    assert episode.length == 40 - RAMP
    run = sent[RAMP:]
    np.testing.assert_array_equal(rows["act"], run.astype(np.float32))
    # the panda was where it had last been told to be
    np.testing.assert_array_equal(rows["obs.pos"], sent[RAMP - 1 : -1].astype(np.float32))
    assert not rows["terminated"].any()
    assert rows["truncated"].nonzero()[0].tolist() == [episode.length - 1]
    assert store.schema.meta["bundle"] == flight.bundle.digest
    assert store.verify().ok


def test_commands_are_taken_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Of a robot that orders its joints in another way."""
    joints = MessageEncoder._joints

    def backwards(encoder: Any, topic: str, at_s: float, position: np.ndarray) -> Any:
        names, encoder._names = encoder._names, encoder._names[::-1]
        try:
            return joints(encoder, topic, at_s, position[::-1])
        finally:
            encoder._names = names

    monkeypatch.setattr(MessageEncoder, "_joints", backwards)
    sent = sent_of(fly(tmp_path))
    rows = convert(tmp_path / "recordings", tmp_path / "data.zarr").read()
    np.testing.assert_array_equal(rows["act"], sent[RAMP:].astype(np.float32))


def test_the_same_recording_gives_the_same_dataset(tmp_path: Path):
    fly(tmp_path)
    one, two = (convert(tmp_path / "recordings", tmp_path / name) for name in ("a", "b"))
    assert one.digest() == two.digest()


def test_a_gap_in_the_readings_ends_an_episode_and_its_rows_are_left_out(tmp_path: Path):
    def course(flight: Flight) -> None:
        flight.run(20)
        flight.run(6, silent=True)
        flight.run(20)

    fly(tmp_path, course)
    store = convert(tmp_path / "recordings", tmp_path / "data.zarr")
    assert len(store.episodes) == 2
    # readings of up to 0.1 s, two periods, are fresh enough
    assert store.episodes[0].length == 20 - RAMP + 2
    assert store.num_rows <= 46 - 6 + 2 - RAMP


def test_a_missed_period_ends_an_episode(tmp_path: Path):
    def course(flight: Flight) -> None:
        flight.run(20)
        flight.number += 1
        flight.now_s += 0.05
        flight.run(20)

    fly(tmp_path, course)
    assert len(convert(tmp_path / "recordings", tmp_path / "data.zarr").episodes) == 2


def test_an_outcome_ends_an_episode_and_is_its_success(tmp_path: Path):
    def course(flight: Flight) -> None:
        flight.say('{"episode": 1, "over": false, "success": false}')
        flight.run(20)
        flight.say('{"episode": 1, "over": true, "success": true}')
        flight.run(10)
        flight.say('{"episode": 2, "over": false, "success": false}')
        flight.run(10)
        flight.say('{"episode": 2, "over": true, "success": false}')
        flight.run(10)

    fly(tmp_path, course)
    store = convert(tmp_path / "recordings", tmp_path / "data.zarr")
    said = [(e.length, e.success, e.meta["outcome"]) for e in store.episodes]
    assert said == [(20 - RAMP, True, "success"), (10, False, "failure")]
    terminated = store.read(["terminated"])["terminated"]
    assert terminated.nonzero()[0].tolist() == [20 - RAMP - 1]


@pytest.mark.parametrize(
    ("outcome", "episodes"),
    [
        ('{"episode": 1, "over": true, "success": true}', [(20 - RAMP, True)]),
        ('{"over": true, "success": true}', [(20 - RAMP, True), (10, False)]),
    ],
    ids=["simulated robot", "outcomes alone"],
)
def test_rows_after_the_outcome_of_a_numbered_episode_are_no_episode(
    tmp_path: Path, outcome: str, episodes: list[tuple[int, bool]]
):
    """The start of the episode came before the recording."""

    def course(flight: Flight) -> None:
        flight.run(20)
        flight.say(outcome)
        flight.run(10)

    fly(tmp_path, course)
    store = convert(tmp_path / "recordings", tmp_path / "data.zarr")
    assert [(episode.length, episode.success) for episode in store.episodes] == episodes


def test_episodes_written_one_by_one_are_the_same_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As those of a recording with images, which is larger than the memory."""

    def course(flight: Flight) -> None:
        for _ in range(3):
            flight.run(20)
            flight.number += 1
            flight.now_s += 0.05

    fly(tmp_path, course)
    at_once = convert(tmp_path / "recordings", tmp_path / "a")
    monkeypatch.setattr("robo_rl_sim2real.convert.rosbag._BATCH_BYTES", 1)
    one_by_one = convert(tmp_path / "recordings", tmp_path / "b")
    assert len(at_once.episodes) == 3
    assert at_once.digest() == one_by_one.digest()


def test_what_nobody_judged_is_what_the_user_says(tmp_path: Path):
    fly(tmp_path)
    for name, taken in (("a", False), ("b", True)):
        store = convert(tmp_path / "recordings", tmp_path / name, assume_success=taken)
        assert [(e.success, e.meta["outcome"]) for e in store.episodes] == [(taken, "unknown")]


def test_interventions_are_marked_step_by_step(tmp_path: Path):
    def course(flight: Flight) -> None:
        flight.run(20)
        flight.held = True
        flight.run(7)
        flight.held = False
        flight.run(5)

    fly(tmp_path, course)
    rows = convert(tmp_path / "recordings", tmp_path / "data.zarr").read(["intervention"])
    assert rows["intervention"].tolist() == [False] * (20 - RAMP) + [True] * 7 + [False] * 5


def test_the_ramp_after_an_intervention_belongs_to_the_episode(tmp_path: Path):
    def course(flight: Flight) -> None:
        flight.node.runtime.life.cfg = flight.node.runtime.life.cfg.model_copy(
            update={"resume_s": 0.2}
        )
        for held in (False, True, False):
            flight.held = held
            flight.run(12)

    fly(tmp_path, course)
    store = convert(tmp_path / "recordings", tmp_path / "data.zarr")
    (only,) = store.episodes
    assert only.length == 36 - RAMP
    marked = store.read(["intervention"])["intervention"]
    assert marked.tolist() == [False] * (12 - RAMP) + [True] * 12 + [False] * 12


def test_pictures_are_made_ready_as_the_node_did(tmp_path: Path):
    rng, shown = np.random.default_rng(0), list[np.ndarray]()
    flight = Flight(
        tmp_path,
        items={"rgb": TensorSpec(shape=(8, 8, 3), dtype="uint8")},
        observe={"rgb": {"topic": "/front", "msg_type": "sensor_msgs/msg/Image"}},
    )
    camera = Loopback(flight.bus).create_publisher("/front", MsgType.IMAGE)

    def run(ticks: int) -> None:
        for _ in range(ticks):
            shown.append(rng.integers(40, 200, (16, 16, 3), np.uint8))
            camera.send(Reading({"image": shown[-1]}, (), 0.0))
            until = time.monotonic() + 10.0
            while time.monotonic() < until:
                newest = flight.node.inbox.get("/front")
                if newest is not None and newest.stamp_s == flight.now_s:
                    break
                time.sleep(0.001)
            flight.run(1)

    with flight.recorded():
        run(3)
        flight.node.request("activate")
        run(20)
    store = convert(tmp_path / "recordings", tmp_path / "data.zarr")
    (episode,) = store.episodes
    found = store.read(["obs.rgb"])["obs.rgb"]
    expected = [resize(image, 8, 8) for image in shown[-episode.length :]]
    np.testing.assert_array_equal(found, np.stack(expected))


def test_several_recordings_are_one_dataset(tmp_path: Path):
    for name in ("a", "b"):
        flight = Flight(tmp_path / name, folder=str(tmp_path / "both" / name))
        with flight.recorded():
            flight.run(3)
            flight.node.request("activate")
            flight.run(20)
    found = [next((tmp_path / "both" / name).iterdir()) for name in ("a", "b")]
    for index, bag in enumerate(found):
        bag.rename(tmp_path / f"both/{index}")
    assert len(convert(tmp_path / "both", tmp_path / "data.zarr").episodes) == 2


def test_without_an_episode_there_is_no_dataset(tmp_path: Path):
    flight = Flight(tmp_path)
    with flight.recorded():
        flight.run(10)
    why = r"holds no episode; found .*: 0 episodes: never active"
    with pytest.raises(DataError, match=why):
        convert(tmp_path / "recordings", tmp_path / "data.zarr")
    assert not (tmp_path / "data.zarr").exists()


def test_recordings_without_a_usable_period_are_noted_beside_one_with_some(tmp_path: Path):
    """Never active, without readings; a dry run; and cut off before the first period."""
    fly(tmp_path)
    idle = Flight(tmp_path / "idle", folder=str(tmp_path / "recordings" / "idle"))
    with idle.recorded() as first:
        idle.run(10, silent=True)
    dry = Flight(tmp_path / "dry", folder=str(tmp_path / "recordings" / "dry"), dry_run=True)
    with dry.recorded() as second:
        dry.run(3)
        dry.node.request("activate")
        dry.run(20)
    begun = Flight(tmp_path / "begun", folder=str(tmp_path / "recordings" / "begun"))
    with begun.recorded() as third:
        pass
    names = ("a", "b", "c")
    for name, recorder in zip(names, (first, second, third), strict=True):
        recorder.bags[0].rename(tmp_path / "recordings" / name)
    alone = convert(tmp_path / "recordings", tmp_path / "data.zarr")
    assert len(alone.episodes) == 1
    make = component("converters").make({"name": "rosbag"}).build()
    notes = make.convert(tmp_path / "recordings", tmp_path / "again.zarr").notes
    never = "0 episodes: never active, or only on ramps and holds"
    unsent = "0 episodes: no command was sent"
    assert {f"a: {never}", f"b: {unsent}", f"c: {never}"} <= {*notes}


def test_a_command_without_names_is_not_taken_in_any_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    joints = MessageEncoder._joints

    def nameless(encoder: Any, topic: str, at_s: float, position: np.ndarray) -> Any:
        monkeypatch.setattr(encoder, "_names", ())
        return joints(encoder, topic, at_s, position)

    monkeypatch.setattr(MessageEncoder, "_joints", nameless)
    fly(tmp_path)
    with pytest.raises(DataError, match=r"'/robo_rl/sent': joint states without names at "):
        convert(tmp_path / "recordings", tmp_path / "data.zarr")


def test_recordings_that_are_converted_in_part_do_not_take_the_name(tmp_path: Path, monkeypatch):
    """After the first batch is in its store, the process is gone."""
    fly(tmp_path)
    extend = ZarrStore.extend

    def dies(self, episodes):
        extend(self, episodes)
        assert self.path.exists()
        assert not (tmp_path / "data.zarr").exists()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ZarrStore, "extend", dies)
        with pytest.raises(KeyboardInterrupt):
            convert(tmp_path / "recordings", tmp_path / "data.zarr")
    assert not (tmp_path / "data.zarr").exists()
    assert len(convert(tmp_path / "recordings", tmp_path / "data.zarr").episodes) == 1


def test_what_is_there_is_not_written_over(tmp_path: Path):
    fly(tmp_path)
    (tmp_path / "data.zarr").mkdir()
    with pytest.raises(DataError, match="is there already"):
        convert(tmp_path / "recordings", tmp_path / "data.zarr")
    assert (tmp_path / "data.zarr").exists()
