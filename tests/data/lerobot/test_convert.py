"""LeRobot datasets in: a fixture that LeRobot wrote itself, units, and what is damaged."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from small_lerobot import HERE, JOINTS, MAPPING, TINY, convert, png

from robo_rl.cli.main import main
from robo_rl.core.errors import ConfigError, DataError, DeviceError, RoboRlError
from robo_rl.data.lerobot.importer import LeRobotConverter
from robo_rl.data.lerobot.parquet import read_table
from robo_rl.data.lerobot.tables import pictures
from robo_rl.data.lerobot.video import frames_at
from robo_rl.data.store.verify import verify
from robo_rl.data.store.zarr_store import ZarrStore


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ZarrStore:
    return convert(TINY, tmp_path_factory.mktemp("lerobot") / "data.zarr")


def written() -> dict[str, np.ndarray]:
    """What LeRobot's own files hold, read without the code under test."""
    table = pq.read_table(TINY / "data/chunk-000/file-000.parquet")
    return {
        name: np.array(table[name].to_pylist(), dtype=np.float32)
        for name in ("observation.state", "action")
    }


def test_numbers_are_equal_to_the_bit(store: ZarrStore):
    rows = store.read(["obs.joint_pos", "act"])
    assert np.array_equal(rows["obs.joint_pos"], written()["observation.state"])
    assert np.array_equal(rows["act"], written()["action"])
    assert [record.length for record in store.episodes] == [12, 7, 1]
    assert [record.meta["tasks"] for record in store.episodes][1] == ["push the blue block left"]
    assert store.act_spec.rate_hz == 10.0
    assert store.act_spec.unit == "rad"
    assert store.obs_spec.items["joint_pos"].names == JOINTS
    assert verify(store.path).ok


def test_frames_are_those_that_were_written_within_the_codecs_loss(store: ZarrStore):
    """AV1 at crf 30 loses some; the frame of a neighbouring time is far worse."""
    frames = np.load(HERE / "tiny_v3_frames.npz")
    starts = np.cumsum([0] + [record.length for record in store.episodes])
    seen = store.read(["obs.front_rgb"])["obs.front_rgb"].transpose(0, 2, 3, 1).astype(float)
    for key in frames.files:
        camera, episode, row = key.split("_")
        if camera == "front":
            place = starts[int(episode)] + int(row)
            own = np.abs(seen[place] - frames[key]).mean()
            assert own < 12.0
            others = [np.abs(seen[n] - frames[key]).mean() for n in range(len(seen)) if n != place]
            assert own < min(others)


def test_images_have_the_size_of_the_mapping(store: ZarrStore):
    assert store.read(["obs.wrist_rgb"])["obs.wrist_rgb"].shape == (20, 3, 24, 32)


def test_degrees_and_percent_become_radians(tmp_path: Path):
    units = {"units": ["deg"] * 5 + ["percent"], "range_of": {"gripper.pos": [-0.2, 1.8]}}
    mapping = {
        **MAPPING,
        "cameras": {},
        "obs": {"joint_pos": {"source": "observation.state", **units}},
        "act": {"source": "action", **units},
    }
    store = convert(TINY, tmp_path / "data.zarr", mapping)
    found, raw = store.read(["act"])["act"], written()["action"].astype(np.float64)
    assert np.allclose(found[:, :5], raw[:, :5] * math.pi / 180.0, atol=1e-6)
    assert np.allclose(found[:, 5], -0.2 + raw[:, 5] * 0.02, atol=1e-6)
    assert store.act_spec.unit == "rad"


def test_shares_of_a_range_reach_both_of_its_ends(tmp_path: Path):
    ends = {f"{name}.pos": [-1.0, 3.0] for name in JOINTS}
    own = {"source": "observation.state", "units": ["range_m100_100"], "range_of": ends}
    store = convert(TINY, tmp_path / "data.zarr", {**MAPPING, "cameras": {}, "obs": {"x": own}})
    raw = written()["observation.state"].astype(np.float64)
    assert np.allclose(store.read(["obs.x"])["obs.x"], 1.0 + raw * 0.02, atol=1e-6)


def test_a_snapshot_of_the_hubs_cache_is_read(tmp_path: Path):
    """Hugging Face's cache holds files as links to blobs beside the snapshots."""
    root = tmp_path / "datasets--a--b/snapshots/0123"
    shutil.copytree(TINY, root)
    blobs = root.parents[1] / "blobs"
    blobs.mkdir()
    for number, file in enumerate(path for path in root.rglob("*") if path.is_file()):
        file.rename(blobs / str(number))
        file.symlink_to(blobs / str(number))
    assert convert(root, tmp_path / "data.zarr").num_rows == 20


def test_elements_may_be_chosen(tmp_path: Path):
    own = {"source": "observation.state", "units": ["rad"], "elements": [5, 0]}
    store = convert(TINY, tmp_path / "data.zarr", {**MAPPING, "cameras": {}, "obs": {"x": own}})
    assert np.array_equal(store.read(["obs.x"])["obs.x"], written()["observation.state"][:, [5, 0]])
    assert store.obs_spec.items["x"].names == ("gripper.pos", "shoulder_pan.pos")


def test_a_draft_asks_for_what_the_dataset_does_not_say(tmp_path: Path, capsys):
    assert main(["data", "convert", str(TINY), "--from", "lerobot", "--explain"]) == 0
    text = capsys.readouterr().out
    assert text == LeRobotConverter(LeRobotConverter.Config()).explain(TINY)
    drafted = yaml.safe_load(text)
    assert drafted["obs"]["state"]["units"] == ["???"] * 5 + ["percent"]
    assert drafted["act"]["range_of"] == {"gripper.pos": ["???", "???"]}
    assert drafted["cameras"]["wrist_rgb"]["height"] == 48
    file = tmp_path / "mapping.yaml"
    file.write_text(text)
    words = ["data", "convert", str(TINY), f"mapping={file}", "--from", "lerobot"]
    assert main([*words, "--out", str(tmp_path / "data.zarr")]) == 2
    said = capsys.readouterr().err
    missing = "obs.state.units, obs.state.range_of.gripper.pos, act.units"
    assert f"mapping.yaml: no value yet: {missing}" in said
    assert said.count("\n") == 1
    assert not (tmp_path / "data.zarr").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{tiny}", "mapping=none.yaml"], "none.yaml: the mapping does not exist; `robo-rl data"),
        (["nowhere", "mapping=none.yaml"], "nowhere: does not exist; expected recordings, or a"),
        (["nowhere", "--from", "lerobott"], "did you mean 'lerobot'"),
    ],
)
def test_what_is_missing_is_said_before_what_comes_after(words: list[str], said: str, capsys):
    filled = [word.format(tiny=TINY) for word in words]
    assert main(["data", "convert", "--from", "lerobot", *filled]) == 2
    error = capsys.readouterr().err
    assert ("--out is needed" if "{tiny}" in words else said) in error
    assert main(["data", "convert", "--from", "lerobot", *filled, "--out", "never"]) == 2
    assert said in capsys.readouterr().err


WRONG = [
    ({"obs": {"x": {"source": "observation.stat", "units": ["rad"]}}}, "did you mean 'observation"),
    ({"act": {"source": "action", "units": ["degree"]}}, "did you mean 'deg'"),
    ({"act": {"source": "action", "units": ["rad", "rad"]}}, "units; expected one, or 6, found 2"),
    ({"act": {"source": "action", "units": ["percent"]}}, "is a share of an unknown range"),
    ({"act": {"source": "observation.images.front", "units": ["1"]}}, "holds no numbers"),
    ({"cameras": {"a": {"source": "action", "width": 8, "height": 8}}}, "is no camera"),
    ({"act": {"source": "action", "units": ["rad"], "elements": [-1]}}, "greater than or equal to"),
    ({"act": {"source": "action", "units": ["rad"], "names": ["a"]}}, "names has 1 entries for a"),
    ({"act": {"source": "action", "units": ["rad"], "low": [0.0]}}, "low has 1 entries for a last"),
    ({"act_reference": "absolut"}, "did you mean 'absolute'"),
    ({"act_reference": "absolute,delta"}, "reference has 2 words for a last axis of 6"),
    ({"success": "frame_index"}, "'frame_index' is no column of flags; expected 0 or 1"),
    ({"cameras": {"a": {**MAPPING["cameras"]["front_rgb"], "width": 64}}}, "sides of an image"),
]


@pytest.mark.parametrize(("fields", "said"), WRONG, ids=[said[:16] for _, said in WRONG])
def test_a_wrong_mapping_is_one_line(tmp_path: Path, fields, said):
    with pytest.raises(RoboRlError, match=said) as caught:
        convert(TINY, tmp_path / "data.zarr", {**MAPPING, **fields})
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "data.zarr").exists()


def test_images_in_the_table_are_read(tmp_path: Path):
    root = damaged(tmp_path)
    with_pictures(root, 64, 96)
    store = convert(root, tmp_path / "data.zarr")
    assert store.num_rows == 20
    assert not store.read(["obs.front_rgb"])["obs.front_rgb"].any()


def damaged(tmp_path: Path) -> Path:
    shutil.copytree(TINY, tmp_path / "broken")
    return tmp_path / "broken"


def change_info(root: Path, **fields: object) -> None:
    body = json.loads((root / "meta/info.json").read_text())
    (root / "meta/info.json").write_text(json.dumps({**body, **fields}))


def change_column(root: Path, name: str, values) -> None:
    file = root / "data/chunk-000/file-000.parquet"
    table = pq.read_table(file)
    rows = table[name].to_pylist()
    changed = pa.array(values(rows), type=table.schema.field(name).type)
    index = table.column_names.index(name)
    pq.write_table(table.set_column(index, name, changed), file)


def truncate(root: Path, pattern: str) -> None:
    file = next(root.glob(pattern))
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def change_lists(root: Path, name: str) -> None:
    """Move the last number of the first row to the second one."""
    file = root / "data/chunk-000/file-000.parquet"
    table = pq.read_table(file)
    rows = table[name].to_pylist()
    rows[0], rows[1] = rows[0][:-1], [rows[0][-1], *rows[1]]
    changed = pa.array(rows, type=pa.list_(pa.float32()))
    pq.write_table(table.set_column(table.column_names.index(name), name, changed), file)


def with_nan(rows):
    rows[8][2] = float("nan")
    return rows


def change_type(root: Path, name: str, values: pa.Array) -> None:
    """Replace a column by one of another type."""
    file = root / "data/chunk-000/file-000.parquet"
    table = pq.read_table(file)
    changed = table.set_column(table.column_names.index(name), name, values)
    pq.write_table(changed.replace_schema_metadata(None), file)


def with_broken_task(root: Path) -> None:
    """An instruction that is no UTF-8."""
    file = next(root.glob("meta/episodes/*/*"))
    table = pq.read_table(file)
    broken = pa.array([b"\xff\xfe"] * len(table), pa.binary()).view(pa.string())
    tasks = pa.ListArray.from_arrays(pa.array(range(len(table) + 1), pa.int32()), broken)
    pq.write_table(table.set_column(table.column_names.index("tasks"), "tasks", tasks), file)


def with_pictures(root: Path, *sides: int) -> None:
    """The front camera as a column of images, the last of them of other sides."""
    own = {**FEATURES["observation.images.front"], "dtype": "image"}
    change_info(root, features={**FEATURES, "observation.images.front": own})
    file = root / "data/chunk-000/file-000.parquet"
    table = pq.read_table(file)
    shown = [{"bytes": png(64, 96), "path": ""}] * 19 + [{"bytes": png(*sides), "path": ""}]
    pq.write_table(table.append_column("observation.images.front", pa.array(shown)), file)


WORDS = pa.array(["a"] * 20)
FEATURES = json.loads((TINY / "meta/info.json").read_text())["features"]
HUGE = {**FEATURES, "action": {"dtype": "float32", "shape": [1 << 40], "names": None}}
OTHER_SIDES = {
    **FEATURES,
    "observation.images.front": {**FEATURES["observation.images.front"], "shape": [64, 48, 3]},
}
DAMAGE = {
    "truncated rows": (lambda r: truncate(r, "data/*/*.parquet"), "file-000.parquet: unreadable"),
    "truncated video": (lambda r: truncate(r, "videos/*front/*/*.mp4"), "file-000.mp4"),
    "truncated list": (lambda r: truncate(r, "meta/episodes/*/*"), "unreadable"),
    "no video": (lambda r: next(r.glob("videos/*front/*/*")).unlink(), "file-000.mp4: unreadable"),
    "NaN": (lambda r: change_column(r, "action", with_nan), "row 8: 'action' is not finite"),
    "clock": (
        lambda r: change_column(r, "timestamp", lambda rows: [t * 1.5 for t in rows]),
        "timestamp does not fit the rate",
    ),
    "order": (
        lambda r: change_column(r, "frame_index", lambda rows: rows[1:] + rows[:1]),
        "rows of episode 0",
    ),
    "lengths": (lambda r: change_info(r, total_frames=21), "expected 21 rows, found 20"),
    "shape": (lambda r: change_info(r, features=HUGE), "features.action: absurd shape"),
    "version": (lambda r: change_info(r, codebase_version="v1.6"), "v2.1 or v3.0, found v1.6"),
    "escape": (lambda r: change_info(r, data_path="../../etc/{file_index}"), "out of the dataset"),
    "format": (lambda r: change_info(r, data_path="{file_index.real}"), "out of the dataset"),
    "link": (
        lambda r: (
            (r / "videos/observation.images.front").rename(r.parent / "away")
            and (r / "videos/observation.images.front").symlink_to(r.parent / "away")
        ),
        "out of the dataset",
    ),
    "many": (lambda r: change_info(r, total_episodes=1 << 32), "found 3 episodes"),
    "deep": (lambda r: (r / "meta/info.json").write_text("[" * 100_000), "info.json: unreadable"),
    "zero byte": (lambda r: change_info(r, data_path="data/\0"), "out of the dataset"),
    "address": (lambda r: change_info(r, video_path="http:/a/{file_index}"), "a path with a colon"),
    "fewer episodes": (
        lambda r: change_info(r, total_episodes=2),
        "more rows than meta/info.json says; expected 2, found 3 rows",
    ),
    "words as numbers": (
        lambda r: change_type(r, "action", pa.array([["a"] * 6] * 20)),
        "file-000.parquet: 'action' holds no numbers; expected numbers, found values of type",
    ),
    "words as times": (
        lambda r: change_type(r, "timestamp", WORDS),
        "file-000.parquet: 'timestamp' holds no numbers",
    ),
    "words as indices": (
        lambda r: change_type(r, "episode_index", WORDS),
        "file-000.parquet: 'episode_index' holds no numbers",
    ),
    "dates": (
        lambda r: change_type(r, "timestamp", pa.array(range(20), pa.timestamp("s"))),
        "file-000.parquet: 'timestamp' holds no numbers",
    ),
    "broken text": (with_broken_task, "unreadable: 'utf-8' codec can't decode"),
    "ragged": (lambda r: change_lists(r, "action"), "in lists of different lengths"),
    "sides": (lambda r: change_info(r, features=OTHER_SIDES), "expected 48 × 64 pixels, found"),
    "pictures": (
        lambda r: with_pictures(r, 64, 48),
        "images.front row 0: a frame has other sides than meta/info.json says; expected 96 × 64",
    ),
    "bomb": (lambda r: with_pictures(r, 4000, 4000), "found none, or far more pixels"),
    "playlist": (
        lambda r: next(r.glob("videos/*front/*/*")).write_bytes(b"#EXTM3U\n#EXTINF:1,\nfile:/x\n"),
        "file-000.mp4: unreadable",
    ),
    "no json": (lambda r: (r / "meta/info.json").write_text("{"), "info.json: unreadable"),
    "no dataset": (lambda r: shutil.rmtree(r / "meta"), "is no LeRobot dataset"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_one_line_and_nothing_is_half_converted(tmp_path: Path, name: str):
    root = damaged(tmp_path)
    harm, said = DAMAGE[name]
    harm(root)
    with pytest.raises((DataError, ConfigError)) as caught:
        convert(root, tmp_path / "data.zarr")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "data.zarr").exists()


@pytest.mark.parametrize("column", ["observation.state", "action"])
def test_the_memory_for_a_column_is_checked_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch, column: str
):
    """Also if its name holds dots."""
    needed = list[int]()
    monkeypatch.setattr(
        "robo_rl.data.lerobot.parquet.demand_memory", lambda size, *_: needed.append(size)
    )
    file = TINY / "data/chunk-000/file-000.parquet"
    table = read_table(file, [column], 20)
    assert needed[0] >= 8 * len(table) * len(table[column][0])


def test_the_memory_of_repeated_images_is_checked_while_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The file holds equal values once: 200 images of 1 MB are 1 MB of it."""
    images = pa.array([{"bytes": bytes(1 << 20), "path": ""}] * 200)
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"image.a": images, "index": pa.array(range(200))}), file)
    del images
    left, before = [20 << 20], pa.total_allocated_bytes()

    def takes(size: int, *_: object) -> None:
        left[0] -= size
        if left[0] < 0:
            raise DeviceError("too little memory")

    monkeypatch.setattr("robo_rl.data.lerobot.parquet.demand_memory", takes)
    with pytest.raises(DeviceError, match="too little memory"):
        read_table(file, ["index", "image.a"], 200)
    left[0] = 1 << 30
    table = read_table(file, ["index", "image.a"], 200)
    assert table.column_names == ["index", "image.a"]
    assert table["index"].to_pylist() == list(range(200))
    assert [len(each) for each in pictures(table, "image.a", file)] == [1 << 20] * 200
    assert left[0] < (1 << 30) - (200 << 20)
    assert pa.total_allocated_bytes() - before < 250 << 20


def test_names_of_columns_that_are_no_text_are_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def broken(*_: object) -> None:
        b"\xff".decode()

    monkeypatch.setattr(pq, "ParquetFile", broken)
    with pytest.raises(DataError, match=r"a\.parquet: unreadable: 'utf-8' codec"):
        read_table(tmp_path / "a.parquet", ["action"], 20)


@pytest.mark.parametrize("seed", range(6))
def test_damaged_videos_are_told_as_such(seed: int, tmp_path: Path):
    """Whatever is overwritten, text of the container included."""
    whole = sorted(TINY.glob("videos/**/*.mp4"))[0].read_bytes()
    draws = np.random.default_rng(seed)
    told = list[str]()
    for begin in range(0, len(whole), 450):
        noise = draws.integers(0, 256, 900, dtype=np.uint8).tobytes()
        file = tmp_path / "damaged.mp4"
        file.write_bytes((whole[:begin] + noise + whole[begin + 900 :])[: len(whole)])
        try:
            assert len(list(frames_at(file, 0.0, 12, 10.0, (64, 96)))) == 12
        except DataError as error:
            told.append(str(error))
    assert told
    assert all("damaged.mp4" in line for line in told)
