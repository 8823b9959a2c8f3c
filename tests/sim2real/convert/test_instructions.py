"""Recordings of a policy that reads ids of a tokenizer become datasets, with its bundle's file."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_bags import convert
from small_bundles import make_bundle
from small_flights import ROBOT, Flight

from robo_rl.bundle.bundle import Bundle
from robo_rl.bundle.text import portable
from robo_rl.core.errors import BundleError, DataError
from robo_rl.core.spec import ObsSpec
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.language.tokenizer_file import TokenizerFile
from robo_rl_sim2real.control.target_source import TargetSource
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.transport.base import LATCHED
from robo_rl_sim2real.transport.loopback import Loopback

tokenizers = pytest.importorskip("tokenizers", reason="pip install 'robo-rl[pretrained]'")
pytest.importorskip("rosbags", reason="pip install 'robo-rl[dds]'")

WORDS = ("lift", "the", "red", "cube")
Say = Callable[[str], None]


def reader(path: Path) -> Bundle:
    """A policy that was also shown the ids of an instruction."""
    file = path / "words.json"
    vocabulary = {word: number for number, word in enumerate(["?", *WORDS])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="?"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(file))
    encoder = {"name": "tokenizer", "file": str(file), "max_tokens": 6, "suffix": ""}
    settings, files = portable(encoder)
    spec = TokenizerFile(TokenizerFile.Config(file=file, max_tokens=6, suffix="")).spec
    plain = make_bundle(path / "plain", ROBOT)
    agreed = plain.manifest.contract
    obs = ObsSpec(items={**agreed.obs.items, "instruction": spec})
    contract = agreed.model_copy(update={"obs": obs, "text_encoder": settings})
    manifest = plain.manifest.model_copy(update={"contract": contract, "files": {}})
    return Bundle.write(
        path / "bundle", manifest, {"policy.onnx": plain.read("policy.onnx"), **files}
    )


TOPIC = "/policy/instruction"
LIFT, PRESS = [1, 2, 3, 4, -1, -1], [0, 2, 3, 4, -1, -1]


def fly(tmp_path: Path, course: Callable[[Flight, Say], None], *, text: str = "", **fields: Any):
    """A flight whose instruction is said on a topic; recorded."""
    source = {"topic": TOPIC, "msg_type": "std_msgs/msg/String", **({"text": text} if text else {})}
    flight = Flight(tmp_path, bundle=reader(tmp_path), observe={"instruction": source}, **fields)
    out = Loopback(flight.bus).create_publisher(TOPIC, MsgType.TEXT, LATCHED)

    def say(words: str) -> None:
        """Send them, and wait until they are encoded or refused, which takes real time."""
        node, until_s = flight.node, time.monotonic() + 10.0
        refused = node.health.refused
        out.send(Reading({"data": np.asarray(words)}, (), flight.now_s))
        while node.health.refused == refused and time.monotonic() < until_s:
            found = node.inbox.get(TOPIC)
            if found is not None and str(found.fields["data"]) == words:
                return
            time.sleep(0.001)

    course(flight, say)
    return flight


def begin(flight: Flight, ticks: int) -> None:
    flight.run(3)
    flight.node.request("activate")
    flight.run(ticks)


def converted(tmp_path: Path, flight: Flight) -> ZarrStore:
    where = {"contract_from": str(flight.bundle.path)}
    return convert(tmp_path / "recordings", tmp_path / "data.zarr", **where)


def ids_of(store: ZarrStore) -> list[list[list[int]]]:
    name = "obs.instruction"
    return [store.read([name], [episode])[name].tolist() for episode in store.episodes]


def test_words_of_the_settings_count_where_nobody_speaks(tmp_path: Path):
    def course(flight: Flight, say: Say) -> None:
        with flight.recorded():
            begin(flight, 30)

    (ids,) = ids_of(converted(tmp_path, fly(tmp_path, course, text=" ".join(WORDS))))
    assert ids == [LIFT] * len(ids)


@pytest.mark.parametrize("mode", ["full", "ring"])
def test_words_from_before_the_recording_are_those_of_its_rows(tmp_path: Path, mode: str):
    """Latched words come once: before the recorder is there, or longer ago than its ring."""

    def course(flight: Flight, say: Say) -> None:
        say("lift the red cube")
        flight.run(1)
        with flight.recorded() as recorder:
            begin(flight, 60)
            recorder.save()

    flight = fly(tmp_path, course, text="press", mode=mode, ring_s=1.0, post_trigger_s=0.0)
    store = converted(tmp_path, flight)
    (ids,) = ids_of(store)
    assert ids == [LIFT] * len(ids)
    assert [episode.meta["tasks"] for episode in store.episodes] == [["lift the red cube"]]


def test_other_words_begin_another_episode_with_the_first_action_that_follows_them(tmp_path: Path):
    def course(flight: Flight, say: Say) -> None:
        say("lift the red cube")
        with flight.recorded():
            begin(flight, 30)
            for refused in ("lift " * 10, " ", "x" * 10**6):
                say(refused)
                flight.run(3)
            say("press the red cube")
            flight.run(30)

    flight = fly(tmp_path, course)
    assert len(flight.node.health.problem) < 500
    lift, press = ids_of(converted(tmp_path, flight))
    assert lift == [LIFT] * len(lift)
    assert press == [PRESS] * len(press)
    assert len(lift) + len(press) > 55
    assert abs(len(press) - 30) <= 1


def test_without_the_bundle_it_is_an_error(tmp_path: Path):
    def course(flight: Flight, say: Say) -> None:
        with flight.recorded():
            begin(flight, 30)

    fly(tmp_path, course, text="press")
    with pytest.raises(BundleError, match="contract_from=BUNDLE"):
        convert(tmp_path / "recordings", tmp_path / "none.zarr")
    assert not (tmp_path / "none.zarr").exists()


def test_a_policy_that_heard_no_words_was_never_active(tmp_path: Path):
    def course(flight: Flight, say: Say) -> None:
        with flight.recorded():
            begin(flight, 30)

    flight = fly(tmp_path, course)
    with pytest.raises(DataError, match=r"holds no episode; found .*: 0 episodes: never active"):
        converted(tmp_path, flight)
    assert not (tmp_path / "data.zarr").exists()


def test_words_of_a_recording_without_them_in_its_periods_may_be_absent(tmp_path: Path):
    """An older one: what was said before it is not known, whatever its settings say."""

    def course(flight: Flight, say: Say) -> None:
        say("lift the red cube")
        flight.run(1)
        with flight.recorded():
            begin(flight, 30)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TargetSource, "instruction", property(lambda _: "", lambda *_: None), False)
        flight = fly(tmp_path, course, text="press")
    with pytest.raises(DataError, match="no instruction is recorded"):
        converted(tmp_path, flight)
