"""Where a clock was set, no row mixes what came before with what came after, and it is said."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from small_bundles import make_bundle
from small_flights import HOME, ROBOT

from robo_rl.config.component import component
from robo_rl.core.errors import DataError
from robo_rl.data.convert import Converted
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading

pytest.importorskip("rosbags", reason="pip install 'robo-rl[dds]'")

from rosbags.rosbag2 import StoragePlugin, Writer
from small_bags import BEGUN_NS, JOINTS, STORE, Said, joints, write

from robo_rl_sim2real.messages.kinds import to_message
from robo_rl_sim2real.messages.rosbags_types import message_factory

COMMAND = ROBOT.topics.command
SET_S = 1.0


def course(seconds: float = 2.0) -> list[Said]:
    """Joints at 100 Hz that rise, commands at 20 Hz that rise; headers tell when it was."""
    said = [joints(0.01 * i, HOME + 0.001 * i) for i in range(round(100 * seconds) + 5)]
    for i in range(round(20 * seconds)):
        at_s = 0.052 + 0.05 * i
        reading = Reading({"data": HOME + 0.01 * i}, (), at_s)
        said.append((at_s, COMMAND, MsgType.ARRAY, reading))
    return sorted(said, key=lambda item: item[0])


def set_by(change_s: float) -> list[Said]:
    """The recorder's clock is set by so much; the file is in the order in which all came."""
    return [
        (at_s + change_s * (at_s >= SET_S), topic, kind, reading)
        for at_s, topic, kind, reading in course()
    ]


def stamped(header_s: Callable[[float], float]) -> list[Said]:
    """Joints whose headers say something else."""
    return [
        (at_s, topic, kind, reading._replace(stamp_s=header_s(max(at_s, 1e-9))))
        for at_s, topic, kind, reading in course()
    ]


def by_time(said: list[Said]) -> list[Said]:
    return sorted(said, key=lambda item: item[0])


def in_sqlite(path: Path, said: list[Said]) -> Path:
    with Writer(path, version=8, storage_plugin=StoragePlugin.SQLITE3) as writer:
        ways: dict[str, Any] = {}
        for at_s, topic, kind, reading in said:
            if topic not in ways:
                ways[topic] = writer.add_connection(topic, kind.value, typestore=STORE)
            message = to_message(kind, reading, message_factory(STORE))
            cdr = bytes(STORE.serialize_cdr(message, kind.value))
            writer.write(ways[topic], BEGUN_NS + round(1e9 * at_s), cdr)
    return path


class Made:
    """What conversion makes of a recording."""

    def __init__(self, bag: Path, **fields: str) -> None:
        out = bag.with_suffix(".zarr")
        make = component("converters").make({"name": "rosbag", **fields}).build()
        done: Converted = make.convert(bag, out)
        self.notes = [note for note in done.notes if note.startswith(bag.name)]
        store = ZarrStore.open(out)
        self.lengths = [record.length for record in store.episodes]
        found = store.read(["act", "obs.pos"])
        pairs = np.stack([found["act"][:, 0], found["obs.pos"][:, 0]], axis=1) - HOME[0]
        self.rows = [tuple(pair) for pair in np.round(pairs, 4).tolist()]


@pytest.fixture
def known(tmp_path: Path) -> dict[str, str]:
    make_bundle(tmp_path / "bundle", ROBOT)
    settings = {"robot": "panda", "observe": {"pos": {"topic": JOINTS, "field": "position"}}}
    (tmp_path / "settings.yaml").write_text(yaml.safe_dump(settings))
    return {"settings": str(tmp_path / "settings.yaml"), "contract_from": str(tmp_path / "bundle")}


SET = {
    "back": (set_by(-0.4), write, "times of '/.*' fall by 0.39. s in the file: a clock was set ba"),
    "back, in SQLite": (set_by(-0.4), in_sqlite, r"fall by 0.39. s in the file"),
    "back, and sorted by time": (
        by_time(set_by(-0.4)),
        write,
        r"headers .* -0\.400 s: a clock was set",
    ),
    "forward": (set_by(0.4), write, r"headers and times part by \+0\.400 s: a clock was set"),
    "forward, for less than what is stale": (set_by(0.05), write, r"part by \+0\.050 s"),
}


@pytest.mark.parametrize("case", SET)
def test_a_clock_that_was_set_ends_the_episode_and_no_row_is_of_two_times(
    tmp_path: Path, known: dict[str, str], case: str
):
    said, to_file, why = SET[case]
    whole = Made(write(tmp_path / "whole", course()), **known)
    made = Made(to_file(tmp_path / "bag", said), **known)
    assert (whole.lengths, len(whole.notes)) == ([40], 1)
    assert len(made.lengths) == 2
    assert sum(made.lengths) >= 15
    assert set(made.rows) <= set(whole.rows)
    assert made.rows == sorted(made.rows)
    assert len(made.notes) == 2
    assert re.search(why, made.notes[1]), made.notes[1]


HEADERS = {
    "set back": lambda at_s: at_s - 0.3 * (at_s > SET_S),
    "set forward": lambda at_s: at_s + 0.3 * (at_s > SET_S),
    "one of long ago": lambda at_s: at_s - 0.6 * (abs(at_s - SET_S) < 1e-6),
}


@pytest.mark.parametrize("case", HEADERS)
def test_headers_that_jump_end_the_episode(tmp_path: Path, known: dict[str, str], case: str):
    whole = Made(write(tmp_path / "whole", course()), **known)
    made = Made(write(tmp_path / "bag", stamped(HEADERS[case])), **known)
    assert len(made.lengths) == 2
    assert set(made.rows) < set(whole.rows)
    assert "headers" in made.notes[1]


def test_times_in_no_order_at_all_leave_no_episode(tmp_path: Path, known: dict[str, str]):
    said = course()
    order = np.random.default_rng(0).permutation(len(said))
    with pytest.raises(DataError, match=r"holds no episode.* fall by .* a clock was set back"):
        Made(write(tmp_path / "bag", [said[i] for i in order]), **known)


def late(said: Said) -> Said:
    """What was sent within 0.2 s comes at once behind it."""
    at_s = said[0]
    return (SET_S + 0.195 + 1e-4 * at_s, *said[1:]) if SET_S <= at_s < SET_S + 0.2 else said


INNOCENT = {
    "a clock that is an hour off": stamped(lambda at_s: at_s + 3600.0),
    "a clock that drifts by a thousandth": stamped(lambda at_s: 1.001 * at_s),
    "lateness that passes": by_time(
        [late(item) if item[1] == JOINTS else item for item in course()]
    ),
}


@pytest.mark.parametrize("case", INNOCENT)
def test_what_is_no_jump_is_left_alone(tmp_path: Path, known: dict[str, str], case: str):
    made = Made(write(tmp_path / "bag", INNOCENT[case]), **known)
    assert len(made.notes) == 1


def test_an_outcome_where_messages_are_mixed_is_refused(tmp_path: Path, known: dict[str, str]):
    over = Reading({"data": np.asarray('{"over": true, "success": true}')}, (), 0.0)
    said = set_by(-0.4)
    at = next(i for i, item in enumerate(said) if item[0] > 0.8)
    said.insert(at, (0.8, "/sim/episode", MsgType.TEXT, over))
    with pytest.raises(DataError, match=r"an outcome at 0\.800 s, of which episode is not known"):
        Made(write(tmp_path / "bag", said), **known)
    assert not (tmp_path / "bag.zarr").exists()
