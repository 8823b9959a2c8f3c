"""A recording whose process was killed: readable up to its last second, after ``data recover``."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_disk import mount_small_disk
from small_flights import NAMES

from robo_rl.cli.main import main
from robo_rl.core.errors import DataError

pytest.importorskip("rosbags", reason="pip install 'robo-rl[dds]'")

from robo_rl_sim2real.control.commands.safety import Command
from robo_rl_sim2real.control.events import Tick
from robo_rl_sim2real.control.runtime import TickOutput
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.rosbags_types import type_store
from robo_rl_sim2real.recording.bag_writer import BagWriter
from robo_rl_sim2real.recording.message_encoder import ClockOrigin, MessageEncoder
from robo_rl_sim2real.recording.recovery import is_truncated, recover_bag

_FLIER = """
import sys, time
sys.path.insert(0, {tests!r})
from pathlib import Path
from small_flights import Flight
flight = Flight(Path({path!r}))
with flight.recorded():
    flight.run(1)
    flight.node.request("activate")
    while True:
        flight.run(1)
        print(len(flight.commands), flush=True)
        time.sleep(0.02)
"""


def sent(bag: Path) -> np.ndarray:
    from rosbags.highlevel import AnyReader

    with AnyReader([bag]) as reader:
        ways = [way for way in reader.connections if way.topic == "/robo_rl/sent"]
        found = reader.messages(ways)
        messages: list[Any] = [reader.deserialize(cdr, way.msgtype) for way, _, cdr in found]
    return np.stack([message.position for message in messages])


def test_kill_9_loses_no_more_than_the_last_second(tmp_path: Path):
    code = _FLIER.format(tests=str(Path(__file__).parents[2]), path=str(tmp_path))
    flier = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert flier.stdout is not None
    told: list[tuple[float, int]] = []
    while not told or told[-1][0] - told[0][0] < 2.5:
        count = int(flier.stdout.readline())
        told.append((time.monotonic(), count))
    os.kill(flier.pid, signal.SIGKILL)
    flier.wait()
    (bag,) = (tmp_path / "recordings").iterdir()
    assert is_truncated(bag)
    before = {file: file.read_bytes() for file in bag.iterdir()}
    assert main(["data", "recover", str(tmp_path / "recordings")]) == 0
    assert {file: file.read_bytes() for file in bag.iterdir()} == before
    mended = bag.with_name(f"{bag.name}-mended")
    assert not is_truncated(mended)
    found = sent(mended)
    ended_s = told[-1][0]
    due = max((count for at_s, count in told if at_s < ended_s - 1.5), default=0)
    assert len(found) >= due > 0
    assert np.isfinite(found).all()


@pytest.fixture
def bag(tmp_path: Path) -> Path:
    """Whole, and flushed ten times."""
    store = type_store("jazzy")
    made = BagWriter(tmp_path / "recording", store)
    log = MessageEncoder({}, NAMES, ClockOrigin(0.0, 1_700_000_000_000_000_000))
    for number in range(100):
        pos = np.full(len(NAMES), 0.01 * number)
        command = Command(pos, None, np.zeros_like(pos))
        output = TickOutput(command, State.RUNNING, target=pos)
        for message in log.messages(Tick(number, 0.05 * number, 0.001, output, 0.05 * number)):
            made.write(message)
        if number % 10 == 9:
            made.flush()
    made.close()
    assert not is_truncated(made.path)
    return made.path


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9, 0.999])
def test_wherever_it_is_cut_what_is_whole_is_what_was_sent(bag: Path, tmp_path: Path, share: float):
    whole = sent(bag)
    (file,) = bag.glob("*.mcap")
    data = file.read_bytes()
    file.write_bytes(data[: int(share * len(data))])
    assert is_truncated(bag)
    recover_bag(bag, tmp_path / "mended")
    found = sent(tmp_path / "mended")
    assert 0 < len(found) <= len(whole)
    np.testing.assert_array_equal(found, whole[: len(found)])


@pytest.mark.parametrize("left", [0, 4, 20])
def test_where_nothing_is_whole_that_is_said(bag: Path, tmp_path: Path, left: int):
    (file,) = bag.glob("*.mcap")
    file.write_bytes(file.read_bytes()[:left])
    with pytest.raises(DataError, match="nothing in it is whole"):
        recover_bag(bag, tmp_path / "mended")
    assert not (tmp_path / "mended").exists()


def test_a_disk_that_is_full_is_said_and_leaves_nothing_in_the_way(bag: Path, tmp_path: Path):
    (file,) = bag.glob("*.mcap")
    file.write_bytes(file.read_bytes()[:-100])
    with mount_small_disk(tmp_path / "small") as disk:
        filler, torn = disk / "filler", disk / "torn"
        shutil.copytree(bag, torn)
        room = shutil.disk_usage(disk).free - 4096
        filler.write_bytes(bytes(room))
        assert main(["data", "recover", str(disk)]) == 2
        assert sorted(path.name for path in disk.iterdir()) == ["filler", "torn"]
        filler.unlink()
        assert main(["data", "recover", str(disk)]) == 0
        assert not is_truncated(disk / "torn-mended")


def test_what_was_mended_is_not_written_over(bag: Path, tmp_path: Path):
    (tmp_path / "mended").mkdir()
    with pytest.raises(DataError, match="is there already"):
        recover_bag(bag, tmp_path / "mended")


def test_a_whole_recording_has_nothing_to_mend(bag: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["data", "recover", str(bag)]) == 0
    assert capsys.readouterr().out == "nothing was cut off\n"
