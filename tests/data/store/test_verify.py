import random
import shutil

import google_crc32c
import numpy as np
import pytest
from numcodecs import Zstd
from small_stores import flat_rows, make_episode, make_store

from robo_rl.core.errors import DataError
from robo_rl.data.dataset import WindowDataset
from robo_rl.data.store import commits
from robo_rl.data.store.arrays import RowArray
from robo_rl.data.store.verify import repair, verify
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.data.store.zstd_frame import content_bytes


@pytest.fixture
def store(tmp_path):
    store = make_store(tmp_path / "data.zarr")
    store.extend(make_episode(index) for index in range(5))
    return store


def flip(file, place=None, mask=0x10):
    data = bytearray(file.read_bytes())
    data[len(data) // 2 if place is None else place] ^= mask
    file.write_bytes(data)


def damaged_files(report):
    return [damage.file for damage in report.damage]


def seeds(store):
    return [record.seed for record in store.episodes]


def test_a_whole_store_has_no_damage(store):
    report = store.verify()
    assert report.ok
    assert (report.episodes, report.rows) == (5, 43)
    assert report.chunks == 7 * len(store.schema.arrays)
    before = {file: file.read_bytes() for file in store.path.rglob("*") if file.is_file()}
    done = store.repair()
    assert (done.quarantined, done.rewritten, done.torn_bytes, done.episodes) == ((), (), 0, 5)
    assert before == {file: file.read_bytes() for file in store.path.rglob("*") if file.is_file()}


def test_every_damaged_chunk_is_listed_with_its_episode(store):
    first, second = store.path / "act" / "c.2.0", store.path / "obs" / "image" / "c.4.0.0.0"
    flip(first)
    second.unlink()
    report = verify(store.path)
    assert [(d.file, d.episode) for d in report.damage] == [(first, 2), (second, 3)]
    assert "crc32c" in report.damage[0].problem
    assert "missing" in report.damage[1].problem


def test_rows_swapped_between_good_chunks_are_noticed(store):
    one, other = store.path / "act" / "c.0.0", store.path / "act" / "c.1.0"
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)
    report = verify(store.path)
    assert {damage.episode for damage in report.damage} == {0, 1}
    assert "do not match the hash" in report.damage[0].problem


def test_an_end_before_the_last_row_is_listed_and_set_aside(store, monkeypatch):
    monkeypatch.setattr("robo_rl.data.store.episode.first_early_end", lambda rows: None)
    early = make_episode(7, length=12)
    early["terminated"][9] = True
    record = store.append(early)
    monkeypatch.undo()
    (found,) = verify(store.path).damage
    row = record.start + 9
    assert found.problem == f"'terminated' in row {row}, before the episode's last row {row + 2}"
    assert found.file == store.path / "terminated" / f"c.{row // 8}"
    assert found.episode == 5
    with pytest.raises(DataError, match=r"terminates before its last row.*1 such rows"):
        WindowDataset(ZarrStore.open(store.path), 1, 1).outcomes()
    assert repair(store.path).episodes == 5
    WindowDataset(ZarrStore.open(store.path), 1, 1).outcomes()


def test_actions_that_are_not_finite_are_noticed(store, monkeypatch):
    monkeypatch.setattr("robo_rl.data.store.episode.first_not_finite", lambda rows: None)
    bad = make_episode(7, length=12)
    bad["act"][9, 0] = np.nan
    store.append(bad)
    report = verify(store.path)
    assert damaged_files(report) == [store.path / "act" / "c.8.0"]
    assert "not finite" in report.damage[0].problem
    assert repair(store.path).episodes == 5


def test_repair_sets_damaged_episodes_aside_and_never_writes_over_them(store):
    last = store.episodes[-1]
    flip(store.path / "act" / f"c.{last.start // 8}.0")
    flip(store.path / "act" / "c.1.0")
    chunks = {file: file.read_bytes() for file in store.path.rglob("c.*")}
    done = repair(store.path)
    assert done.episodes == 3
    assert [reason.split(":")[0] for reason in done.quarantined] == ["episode 1", "episode 4"]
    opened = ZarrStore.open(store.path)
    assert opened.verify().ok
    assert opened.verify().quarantined == 2
    opened.append(make_episode(9))
    assert seeds(opened) == [0, 2, 3, 9]
    assert all(file.read_bytes() == data for file, data in chunks.items())
    reread = ZarrStore.open(store.path).read(["rew"])["rew"]
    expected = [flat_rows(make_episode(index))["rew"] for index in (0, 2, 3, 9)]
    np.testing.assert_array_equal(reread, np.concatenate(expected))


def test_repair_twice_is_repair_once(store):
    flip(store.path / "act" / "c.1.0")
    repair(store.path)
    before = (store.path / commits.QUARANTINE_FILE).read_bytes()
    assert repair(store.path).quarantined == ()
    assert (store.path / commits.QUARANTINE_FILE).read_bytes() == before


def test_a_torn_end_is_reported_as_harmless_and_cut_off(store):
    log = store.path / "commits.jsonl"
    log.write_bytes(log.read_bytes() + b'{"seal": "012')
    report = verify(store.path)
    assert report.ok
    assert report.torn_bytes == 13
    assert repair(store.path).torn_bytes == 13
    assert verify(store.path).torn_bytes == 0


def test_a_damaged_record_goes_into_quarantine_and_its_rows_stay(store):
    log = store.path / "commits.jsonl"
    flip(log, place=len(log.read_bytes()) - 20)  # the last record, whose rows nobody else knows
    with pytest.raises(DataError, match=r"commits\.jsonl:5.*damaged"):
        ZarrStore.open(store.path)
    report = verify(store.path)
    assert report.damage[0].problem.startswith("line 5: record is damaged")
    chunks = {file: file.read_bytes() for file in store.path.rglob("c.*")}
    repair(store.path)
    opened = ZarrStore.open(store.path)
    assert seeds(opened) == [0, 1, 2, 3]
    opened.append(make_episode(9))
    assert all(file.read_bytes() == data for file, data in chunks.items())


@pytest.mark.parametrize("file", ["act/zarr.json", "obs/zarr.json", "obs/image/zarr.json"])
@pytest.mark.parametrize("how", ["flipped", "missing", "empty"])
def test_metadata_is_rewritten_from_the_schema(store, file, how):
    path = store.path / file
    before = path.read_bytes()
    if how == "flipped":
        flip(path)
    elif how == "missing":
        path.unlink()
    else:
        path.write_bytes(b"")
    assert path in damaged_files(verify(store.path))
    assert repair(store.path).rewritten == (path,)
    assert path.read_bytes() == before
    assert verify(store.path).ok


def test_a_lost_schema_cannot_be_repaired_and_says_so(store):
    flip(store.path / "zarr.json")
    for action in (verify, repair):
        with pytest.raises(DataError, match=r"zarr\.json.*take it from a copy"):
            action(store.path)


@pytest.mark.parametrize("name", ["act", "obs", "commits.jsonl", ".lock"])
def test_repair_refuses_to_follow_a_link(store, tmp_path, name):
    shutil.move(store.path / name, tmp_path / name)
    (store.path / name).symlink_to(tmp_path / name)
    before = contents(tmp_path / name)
    with pytest.raises(DataError, match="is a link"):
        repair(store.path)
    assert contents(tmp_path / name) == before


@pytest.mark.parametrize("name", ["commits.jsonl", "commits.quarantine.jsonl", ".lock"])
def test_no_file_of_a_link_is_written(store, tmp_path, name):
    """A torn end would be cut off, and a record written over it."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"a secret of whoever appends")
    (store.path / name).unlink(missing_ok=True)
    (store.path / name).symlink_to(victim)
    for action in (repair, lambda _: store.append(make_episode(7))):
        with pytest.raises(DataError, match=rf"{name}: is a link"):
            action(store.path)
    assert victim.read_bytes() == b"a secret of whoever appends"


def contents(path):
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return {file: file.read_bytes() for file in files}


def frame_of_unknown_size(data):
    """One raw block behind a header without the size of the content (RFC 8878)."""
    return b"\x28\xb5\x2f\xfd\x00\x58" + (len(data) << 3 | 1).to_bytes(3, "little") + data


ZSTD = Zstd(level=1)
FRAMES = {
    "bomb": (ZSTD.encode(bytes(64 << 20)), f"decompresses to {64 << 20} bytes instead of 32"),
    "short": (ZSTD.encode(bytes(8)), "decompresses to 8 bytes instead of 32"),
    "two frames": (
        ZSTD.encode(bytes(32)) + ZSTD.encode(bytes(64 << 20)),
        "decompresses to an unknown number of bytes",
    ),
    "unknown": (frame_of_unknown_size(bytes(32)), "decompresses to an unknown number of bytes"),
    "empty": (b"", "fails its crc32c"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_chunk_of_another_size_is_damage_and_is_not_decoded(store, name, monkeypatch):
    frame, said = FRAMES[name]
    file = store.path / "rew" / "c.1"
    file.write_bytes(frame + google_crc32c.value(frame).to_bytes(4, "little"))
    decoded = []
    monkeypatch.setattr(RowArray, "_open", lambda array: decoded.append(array.key))
    with pytest.raises(DataError, match=rf"c\.1: chunk {said}"):
        RowArray(store.path, "rew", store.schema).read(0, 16)
    assert decoded == []
    monkeypatch.undo()
    (found,) = verify(store.path).damage
    assert found.file == file
    assert said in found.problem
    assert repair(store.path).episodes == 4


@pytest.mark.parametrize("values", ["equal", "random"])
@pytest.mark.parametrize("size", [1, 40, 255, 256, 400, 70_000, 1_000_000])
def test_the_size_of_a_chunk_that_zarr_writes_is_known(tmp_path, values, size):
    rng = np.random.default_rng(0)
    rows = np.ones(size, "u1") if values == "equal" else rng.integers(0, 256, size, np.uint8)
    file = tmp_path / "chunk"
    file.write_bytes(ZSTD.encode(rows) + b"crc_")
    assert content_bytes(file, 4) == size


def test_repair_waits_for_nobody(store):
    with commits.writing(store.path), pytest.raises(DataError, match="another process"):
        repair(store.path)


def is_noticed(path, file):
    """Whether damage in ``file`` is found and the file is named."""
    try:
        return file in [damage.file for damage in verify(path).damage]
    except DataError as error:
        return str(file) in str(error)


@pytest.mark.parametrize("flips", [50, pytest.param(500, marks=pytest.mark.slow)])
def test_every_flipped_byte_is_noticed_and_its_file_is_named(store, flips):
    rng = random.Random(0)
    files = sorted(file for file in store.path.rglob("*") if file.is_file() and file.stat().st_size)
    for _ in range(flips):
        file = rng.choice(files)
        whole = file.read_bytes()
        place, mask = rng.randrange(len(whole)), rng.randrange(1, 256)
        flip(file, place, mask)
        assert is_noticed(store.path, file), (file, place, mask)
        file.write_bytes(whole)
    assert verify(store.path).ok


def test_no_array_reads_missing_chunks_as_zeros(store):
    for key in store.schema.arrays:
        array = RowArray(store.path, key, store.schema)
        array.chunk_file(0).unlink()
        with pytest.raises(DataError, match="chunk is missing"):
            array.read(0, 1)
