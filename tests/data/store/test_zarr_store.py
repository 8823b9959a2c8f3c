import errno
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import zarr
from small_disk import mount_small_disk
from small_stores import (
    ACT,
    CHUNK_ROWS,
    COLUMNS,
    OBS,
    concatenated,
    make_episode,
    make_store,
)

from robo_rl.core.errors import DataError
from robo_rl.data.store import arrays, commits
from robo_rl.data.store.zarr_store import ZarrStore


@pytest.fixture
def small_disk(tmp_path):
    with mount_small_disk(tmp_path / "disk") as disk:
        yield disk


def assert_holds(store, indices):
    expected = concatenated(indices)
    found = store.read()
    assert found.keys() == expected.keys()
    for key, rows in expected.items():
        assert found[key].dtype == rows.dtype
        np.testing.assert_array_equal(found[key], rows)
    assert [record.seed for record in store.episodes] == list(indices)


def array_metadata(store, key):
    return (arrays.array_path(store.path, key) / "zarr.json").read_text()


def test_what_was_appended_is_read_back_one_by_one_or_many_at_once(store):
    for index in range(3):
        store.append(make_episode(index))
    store.extend(make_episode(index) for index in range(3, 9))
    assert store.extend([]) == []
    assert_holds(store, range(9))
    assert_holds(ZarrStore.open(store.path), range(9))


def test_rows_are_read_in_parts_of_a_size(store, monkeypatch):
    monkeypatch.setattr("robo_rl.data.store.reading._RUN_BYTES", 200)
    store.extend(make_episode(index) for index in range(9))
    assert_holds(store, range(9))


def test_some_episodes_and_some_arrays_can_be_read_in_any_order(store):
    store.extend(make_episode(index) for index in range(6))
    chosen = [store.episodes[4], store.episodes[1]]
    found = store.read(["act"], chosen)
    np.testing.assert_array_equal(found["act"], concatenated([4, 1])["act"])
    assert list(found) == ["act"]
    assert store.read(["act"], [])["act"].shape == (0, 2)
    with pytest.raises(DataError, match=r"no such arrays.*'acts'"):
        store.read(["acts"])


def test_tensors_are_taken_as_arrays_are(store):
    import torch

    episode = make_episode(0)
    episode["act"] = torch.from_numpy(episode["act"])
    episode["obs"] = {name: torch.from_numpy(rows) for name, rows in episode["obs"].items()}
    store.append(episode)
    assert_holds(store, [0])


def test_zarr_itself_reads_the_arrays(store):
    store.extend(make_episode(index) for index in range(3))
    array = zarr.open_array(store.path / "obs" / "joint_pos", mode="r")
    record = store.episodes[2]
    rows = np.asarray(array[record.start : record.stop])
    np.testing.assert_array_equal(rows, make_episode(2)["obs"]["joint_pos"])
    codecs = [codec["name"] for codec in json.loads(array_metadata(store, "act"))["codecs"]]
    assert codecs == ["bytes", "zstd", "crc32c"]


def test_schema_and_meta_survive_with_infinite_limits(store):
    opened = ZarrStore.open(store.path)
    assert opened.obs_spec == OBS
    assert opened.act_spec == ACT
    assert opened.schema.columns == COLUMNS
    assert opened.schema.meta == {"task": "tiny"}


def test_a_committed_chunk_is_never_written_again(store):
    store.append(make_episode(0))
    chunks = {file: file.stat() for file in store.path.rglob("c.*")}
    store.append(make_episode(1))
    for file, before in chunks.items():
        after = file.stat()
        assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_every_episode_begins_at_a_chunk(store):
    store.extend(make_episode(index) for index in range(7))
    assert all(record.start % CHUNK_ROWS == 0 for record in store.episodes)


def test_the_record_follows_when_all_else_is_flushed(store, monkeypatch):
    flushed, fsync = [], os.fsync
    monkeypatch.setattr(
        os,
        "fsync",
        lambda fd: (flushed.append(os.readlink(f"/proc/self/fd/{fd}")), fsync(fd)),
    )
    before = set(store.path.rglob("*"))
    store.append(make_episode(0))
    new = {str(path) for path in set(store.path.rglob("*")) - before if path.name != ".lock"}
    assert new  # chunk files of every array
    assert flushed[-1] == str(store.path / "commits.jsonl")
    assert new | {os.path.dirname(path) for path in new} <= set(flushed[:-1])


@pytest.mark.parametrize("cut", range(1, 200, 33))
def test_a_torn_last_line_is_ignored_and_written_over(store, cut):
    store.extend(make_episode(index) for index in range(3))
    log = store.path / "commits.jsonl"
    log.write_bytes(log.read_bytes()[:-cut])
    opened = ZarrStore.open(store.path)
    # without its newline alone the record is still whole, and so counts
    kept = 3 if cut == 1 else 2
    assert len(opened.episodes) == kept
    opened.extend([make_episode(index) for index in range(kept, 5)])
    assert_holds(ZarrStore.open(store.path), range(5))


@pytest.mark.parametrize("byte", [b"X", b"\0", b" "])
def test_a_damaged_newline_does_not_pass_for_a_torn_line(store, byte):
    store.extend(make_episode(index) for index in range(2))
    log = store.path / "commits.jsonl"
    log.write_bytes(log.read_bytes()[:-1] + byte)
    with pytest.raises(DataError, match=r"commits.jsonl:2.*damaged"):
        ZarrStore.open(store.path)


def no_space(*_args, **_kwargs):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("module", "name"),
    [(arrays, "write_metadata"), (arrays, "sync"), (commits, "append_file"), (os, "fsync")],
)
def test_a_failed_append_says_so_and_leaves_no_episode(store, monkeypatch, module, name):
    store.append(make_episode(0))
    monkeypatch.setattr(module, name, no_space)
    with pytest.raises(DataError, match="could not be written: No space left"):
        store.append(make_episode(4))
    monkeypatch.undo()
    assert_holds(ZarrStore.open(store.path), [0])
    store.append(make_episode(1))
    assert_holds(ZarrStore.open(store.path), [0, 1])
    assert store.verify().ok


def test_two_openers_take_turns(store):
    other = ZarrStore.open(store.path)
    store.append(make_episode(0))
    other.append(make_episode(1))
    store.append(make_episode(2))
    assert_holds(store, range(3))


def test_what_a_failed_append_left_does_not_mislead_the_next_writer(store, monkeypatch):
    other = ZarrStore.open(store.path)
    with monkeypatch.context() as patch:
        patch.setattr(commits, "append_file", no_space)
        with pytest.raises(DataError, match="No space"):
            store.extend(make_episode(index) for index in range(5))
    other.append(make_episode(0))
    store.extend([make_episode(1), make_episode(2)])
    assert_holds(ZarrStore.open(store.path), range(3))


def test_a_full_disk_is_an_error_and_earlier_episodes_stay(small_disk):
    store = make_store(small_disk / "data.zarr", chunk_rows=1 << 14)
    store.append(make_episode(0))
    rows = np.random.default_rng(0).integers(0, 255, (200_000, 2, 2, 3), np.uint8)
    big = make_episode(1, length=len(rows))
    big["obs"]["image"] = rows
    with pytest.raises(DataError, match="could not be written: No space left"):
        store.append(big)
    assert_holds(ZarrStore.open(store.path), [0])


def test_two_writers_at_once_are_refused(store):
    with commits.writing(store.path), pytest.raises(DataError, match="another process is writing"):
        store.append(make_episode(0))


def test_the_digest_is_of_the_content_alone(tmp_path):
    def digest(name, indices, **fields):
        store = make_store(tmp_path / name, **fields)
        for index in indices:
            store.append(make_episode(index))
        assert ZarrStore.open(store.path).digest() == store.digest()
        return store.digest()

    assert digest("a", [0, 1]) == digest("b", [0, 1])
    others = [digest("c", [1, 0]), digest("d", [0]), digest("e", [0, 1], chunk_rows=16)]
    assert len({digest("f", [0, 1]), *others}) == 4


def test_importing_the_normaliser_needs_no_zarr():
    code = "import sys, robo_rl.data.normalize; assert 'zarr' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_log_is_one_json_object_a_line(store):
    store.extend(make_episode(index) for index in range(2))
    lines = (store.path / "commits.jsonl").read_text().splitlines()
    assert [json.loads(line)["start"] for line in lines] == [0, 8]
