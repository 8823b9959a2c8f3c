"""Which recordings of a folder are read: every row once, and none of a recording in progress."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from small_flights import Flight

from robo_rl.cli.main import main
from robo_rl.config.component import component
from robo_rl.core.errors import DataError

pytest.importorskip("rosbags", reason="pip install 'robo-rl[dds]'")

from rosbags.rosbag2 import StoragePlugin, Writer

from robo_rl_sim2real.convert.bag_reader import open_bag
from robo_rl_sim2real.convert.recordings import find_readable, find_torn
from robo_rl_sim2real.messages.rosbags_types import type_store
from robo_rl_sim2real.recording.bag_writer import BagWriter
from robo_rl_sim2real.recording.message_encoder import ClockOrigin, MessageEncoder
from robo_rl_sim2real.recording.recovery import is_truncated, recover_bag, recovered_path


def begun(path: Path) -> BagWriter:
    """A recording in progress, of one message that is on the disk."""
    bag = BagWriter(path, type_store("jazzy"))
    bag.write(MessageEncoder({"task": "lift"}, ("a",), ClockOrigin(0.0, 1)).about())
    bag.flush()
    return bag


def torn(path: Path) -> Path:
    begun(path).discard()
    return path


def whole(path: Path) -> Path:
    begun(path).close()
    return path


def in_sqlite(path: Path) -> Path:
    with Writer(path, version=8, storage_plugin=StoragePlugin.SQLITE3):
        pass
    return path


def names(bags: list[Path]) -> list[str]:
    return [bag.name for bag in bags]


def test_a_recording_in_progress_is_neither_recovered_nor_read(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
):
    bag = begun(tmp_path / "live")
    torn(tmp_path / "torn")
    assert is_truncated(bag.path)
    assert main(["data", "recover", str(tmp_path)]) == 0
    (warning,) = recwarn.list
    assert str(warning.message) == "live: left out, because it is being recorded"
    assert sorted(names(list(tmp_path.iterdir()))) == ["live", "torn", "torn-mended"]
    with pytest.raises(DataError, match="live: is being recorded"), open_bag(bag.path):
        pytest.fail("reads on")
    with pytest.raises(DataError, match="live: is being recorded"):
        recover_bag(bag.path, recovered_path(bag.path))
    bag.close()
    assert names(find_readable(tmp_path).bags) == ["live", "torn-mended"]


def test_a_recovered_copy_is_left_out_once_its_source_is_whole(tmp_path: Path):
    whole(tmp_path / "run")
    copy = whole(tmp_path / "run-mended")
    found = find_readable(tmp_path)
    assert names(found.bags) == ["run"]
    assert found.notes == ["run-mended: left out, because run is whole"]
    assert find_readable(copy).bags == [copy]


def test_a_recovered_copy_does_not_stand_for_what_was_written_after_it(tmp_path: Path):
    bag = torn(tmp_path / "run")
    assert main(["data", "recover", str(bag)]) == 0
    found = find_readable(tmp_path)
    assert names(found.bags) == ["run-mended"]
    assert found.notes[0].startswith("run: left out, because it was cut off, and run-mended has")
    (file,) = recovered_path(bag).glob("*.mcap")
    later_ns = file.stat().st_mtime_ns + 1
    (source,) = bag.glob("*.mcap")
    os.utime(source, ns=(later_ns, later_ns))
    assert names(find_readable(tmp_path).bags) == ["run", "run-mended"]
    assert find_torn(tmp_path).bags == [bag]


def test_rows_of_a_recording_and_its_copy_are_converted_once(tmp_path: Path):
    flight = Flight(tmp_path)
    with flight.recorded() as recorder:
        flight.run(3)
        flight.node.request("activate")
        flight.run(20)
    (bag,) = recorder.bags
    converter = component("converters").make({"name": "rosbag"}).build()
    alone = converter.convert(bag, tmp_path / "alone.zarr")
    shutil.copytree(bag, recovered_path(bag))
    both = converter.convert(bag.parent, tmp_path / "both.zarr")
    assert (both.episodes, both.rows) == (alone.episodes, alone.rows)
    assert f"{bag.name}-mended: left out, because {bag.name} is whole" in both.notes


def test_a_recording_in_sqlite_without_metadata_is_not_passed_over(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
):
    in_sqlite(tmp_path / "run1")
    cut = in_sqlite(tmp_path / "run2")
    (cut / "metadata.yaml").unlink()
    assert names(find_readable(tmp_path).bags) == ["run1", "run2"]
    with pytest.raises(DataError, match=r"run2: the recording was cut off; .*reindex"):
        open_bag(cut).__enter__()
    assert main(["data", "recover", str(tmp_path)]) == 0
    (warning,) = recwarn.list
    assert "run2: left out, because it was cut off; `ros2 bag reindex`" in str(warning.message)


def test_recordings_whose_names_differ_behind_a_dot_have_copies_of_their_own(tmp_path: Path):
    for name in ("lift.a", "lift.b"):
        torn(tmp_path / name)
    assert main(["data", "recover", str(tmp_path)]) == 0
    assert names(find_readable(tmp_path).bags) == ["lift.a-mended", "lift.b-mended"]
    file = tmp_path / "alone.mcap"
    shutil.copy(next((tmp_path / "lift.a").glob("*.mcap")), file)
    assert recovered_path(file).name == "alone-mended"
