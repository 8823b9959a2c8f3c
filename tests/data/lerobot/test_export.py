"""LeRobot datasets out: what is written reads back, and has LeRobot's documented files."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from pydantic import ValidationError
from small_lerobot import TINY, convert
from small_runs import EXPERIMENT

from robo_rl.cli.main import main
from robo_rl.core.errors import DataError
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.data.dataset import EXECUTED, INTERVENTION
from robo_rl.data.lerobot.exporter import LeRobotExporter
from robo_rl.data.lerobot.importer import LeRobotConverter
from robo_rl.data.lerobot.info import MAPPING_FILE
from robo_rl.data.lerobot.statistics import column_stats, merged_stats
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.world_specs import check_same_specs

SIDES = 32, 48
LENGTHS = (7, 1, 5)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ZarrStore:
    """Three episodes with two vectors and a camera with smooth moving images."""
    obs = ObsSpec(
        items={
            "joint_pos": TensorSpec(shape=(2,), unit="rad", names=("a", "b")),
            "joint_vel": TensorSpec(shape=(2,), unit="rad/s", names=("a", "b")),
            "pose": TensorSpec(shape=(3,), unit="m", frame="world", low=(-1,) * 3, high=(1,) * 3),
            "turn": TensorSpec(shape=(2, 2)),
            "eye_rgb": TensorSpec(shape=(3, *SIDES), dtype="uint8"),
        }
    )
    act = ActSpec(shape=(2,), unit="rad,m", low=(-1.0, 0.0), high=(1.0, 0.5), rate_hz=20.0)
    path = tmp_path_factory.mktemp("source") / "data.zarr"
    columns = {EXECUTED: act, INTERVENTION: TensorSpec(shape=(), dtype="bool")}
    made = ZarrStore.create(path, obs, act, {"robot": "panda"}, columns=columns)
    rng = np.random.default_rng(0)
    made.extend(_episode(rng, number, length) for number, length in enumerate(LENGTHS))
    return made


def _episode(rng: np.random.Generator, number: int, length: int) -> dict:
    y, x = np.mgrid[: SIDES[0], : SIDES[1]]
    images = np.stack(
        [
            np.stack([4 * x + 9 * t, 6 * y, np.full_like(x, 60 * number)]) % 256
            for t in range(length)
        ]
    )
    last = np.zeros(length, dtype=np.bool_)
    last[-1] = True
    good, falls = number != 1, number == 1  # a success is cut, and a failure terminates
    return {
        "obs": {
            "joint_pos": rng.standard_normal((length, 2), np.float32),
            "joint_vel": rng.standard_normal((length, 2), np.float32),
            "pose": rng.standard_normal((length, 3), np.float32),
            "turn": rng.standard_normal((length, 2, 2), np.float32),
            "eye_rgb": images.astype(np.uint8),
        },
        "act": rng.standard_normal((length, 2), np.float32),
        "rew": rng.standard_normal(length, np.float32),
        "terminated": last & falls,
        "truncated": last & (not falls),
        "success": good,
        EXECUTED: rng.standard_normal((length, 2), np.float32),
        INTERVENTION: np.arange(length) % 2 == 0,
        "meta": {"tasks": [f"task {number % 2}"]},
    }


@pytest.fixture(scope="module", params=["v3.0", "v2.1"])
def exported(request: pytest.FixtureRequest, store: ZarrStore, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("exported") / "lerobot"
    cfg = LeRobotExporter.Config(version=request.param, codec="h264", crf=10)
    assert LeRobotExporter(cfg).export(store.path, out) == 3
    return out


def test_what_is_written_reads_back(store: ZarrStore, exported: Path, tmp_path: Path):
    mapping = str(exported / MAPPING_FILE)
    drafted = LeRobotConverter(LeRobotConverter.Config()).explain(exported)
    assert yaml.safe_load(drafted) == yaml.safe_load(Path(mapping).read_text())
    LeRobotConverter(LeRobotConverter.Config(mapping=mapping)).convert(
        exported, tmp_path / "b.zarr"
    )
    again = ZarrStore.open(tmp_path / "b.zarr")
    ours, theirs = store.read(), again.read()
    assert ours.keys() == theirs.keys()
    for key in ours.keys() - {"obs.eye_rgb"}:
        assert np.array_equal(ours[key], theirs[key]), key
    error = ours["obs.eye_rgb"].astype(float) - theirs["obs.eye_rgb"]
    psnr = 10.0 * np.log10(255.0**2 / np.square(error).mean())
    assert psnr > 30.0  # the colours are stored at half the resolution
    assert (again.act_spec, again.obs_spec) == (store.act_spec, store.obs_spec)
    assert again.schema.columns.keys() == store.schema.columns.keys()
    assert [e.success for e in again.episodes] == [e.success for e in store.episodes]
    assert [e.meta["tasks"] for e in again.episodes] == [["task 0"], ["task 1"], ["task 0"]]


def test_the_columns_are_those_of_a_dataset_that_lerobot_wrote(exported: Path):
    """Names and types of version 3.0, beside the fixture's."""
    body = json.loads((exported / "meta/info.json").read_text())
    like = json.loads((TINY / "meta/info.json").read_text())
    assert body["total_frames"] == sum(LENGTHS)
    if body["codebase_version"] == "v2.1":
        for name in ("episodes", "tasks", "episodes_stats"):
            assert (exported / f"meta/{name}.jsonl").read_text().count("\n") in (2, 3)
        assert (exported / "data/chunk-000/episode_000002.parquet").exists()
        assert (exported / "videos/chunk-000/observation.images.eye_rgb").is_dir()
        return
    assert set(like) <= set(body)
    ours, theirs = (pq.read_schema(r / "data/chunk-000/file-000.parquet") for r in (exported, TINY))
    for name in ("timestamp", "frame_index", "episode_index", "index", "task_index"):
        assert ours.field(name).type == theirs.field(name).type
        assert body["features"][name] == like["features"][name]
    assert str(ours.field("action").type) == "fixed_size_list<element: float>[2]"
    for file in ("meta/tasks.parquet", "meta/episodes/chunk-000/file-000.parquet"):
        ours, theirs = (pq.read_schema(root / file) for root in (exported, TINY))
        for field in theirs:
            name = field.name.replace("images.front", "images.eye_rgb")
            if "wrist" not in name:
                assert depth(ours.field(name).type) == depth(field.type), name


def depth(kind: pa.DataType) -> tuple[int, str]:
    """How many lists are around a type, and the type."""
    inner = 0
    while pa.types.is_list(kind):
        kind, inner = kind.value_type, inner + 1
    return inner, str(kind)


def test_demonstrations_of_a_task_go_out_and_come_back_for_training(tmp_path: Path, road):
    """What is exported and converted is the dataset of the task, for stage ``dataset``."""
    store = ZarrStore.open(road.directory / "00-collect/data.zarr")
    out = tmp_path / "lerobot"
    LeRobotExporter(LeRobotExporter.Config()).export(store.path, out)
    cfg = LeRobotConverter.Config(mapping=str(out / MAPPING_FILE))
    LeRobotConverter(cfg).convert(out, tmp_path / "b.zarr")
    again = ZarrStore.open(tmp_path / "b.zarr")
    experiment = Experiment.model_validate({**EXPERIMENT, "waive": {}})
    with closing(experiment.make_env(1)) as env:
        check_same_specs(again.path, again.obs_spec, again.act_spec, env)
    ours, theirs = store.read(), again.read()
    assert all(np.array_equal(ours[key], theirs[key]) for key in ours)


def test_an_instruction_is_the_task_and_no_part_of_the_state(tmp_path: Path):
    """Also if its encoding is a vector; without its words nothing is written."""
    obs = ObsSpec(items={"pos": TensorSpec(shape=(2,)), "instruction": TensorSpec(shape=(8,))})
    act = ActSpec(shape=(2,), unit="rad", low=(-1.0,) * 2, high=(1.0,) * 2, rate_hz=20.0)
    store = ZarrStore.create(tmp_path / "data.zarr", obs, act, {})
    last = np.array([False, True])
    store.extend(
        [
            {
                "obs": {"pos": np.ones((2, 2), np.float32), "instruction": np.ones((2, 8), "f4")},
                "act": np.ones((2, 2), np.float32),
                "rew": np.zeros(2, np.float32),
                "terminated": last,
                "truncated": ~last & last,
                "success": True,
                "meta": {},
            }
        ]
    )
    with pytest.raises(DataError, match=r"not its words.*task="):
        LeRobotExporter(LeRobotExporter.Config()).export(store.path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    LeRobotExporter(LeRobotExporter.Config(task="lift")).export(store.path, tmp_path / "out")
    info = json.loads((tmp_path / "out" / "meta" / "info.json").read_text())
    assert info["features"]["observation.state"]["shape"] == [2]


def test_the_mapping_back_keeps_open_limits_numbers_and_units_of_a_last_axis(tmp_path: Path):
    inf = float("inf")
    items = {
        "height": TensorSpec(shape=(), unit="m", low=(0.0,)),
        "grip": TensorSpec(shape=(2, 2), unit="rad,N m", names=("turn", "torque")),
        "angle": TensorSpec(shape=(1,), unit="deg"),
    }
    act = ActSpec(shape=(2,), unit="rad", low=(-inf, -1.0), high=(1.0, 1.0), rate_hz=20.0)
    store = ZarrStore.create(tmp_path / "a.zarr", ObsSpec(items=items), act, {})
    rng, last = np.random.default_rng(0), np.array([False, True])
    episode = {
        "obs": {name: rng.random((2, *spec.shape), np.float32) for name, spec in items.items()},
        "act": rng.random((2, 2), np.float32),
        "rew": np.zeros(2, np.float32),
        "terminated": last,
        "truncated": np.zeros(2, np.bool_),
        "success": True,
    }
    store.append(episode)
    LeRobotExporter(LeRobotExporter.Config()).export(store.path, tmp_path / "out")
    cfg = LeRobotConverter.Config(mapping=str(tmp_path / "out" / MAPPING_FILE))
    LeRobotConverter(cfg).convert(tmp_path / "out", tmp_path / "b.zarr")
    again = ZarrStore.open(tmp_path / "b.zarr")
    assert (again.act_spec, again.obs_spec) == (store.act_spec, store.obs_spec)
    ours, theirs = store.read(), again.read()
    assert all(np.array_equal(ours[key], theirs[key]) for key in ours)


def test_a_quality_that_the_codec_lacks_is_refused():
    assert LeRobotExporter.Config(codec="av1", crf=63).crf == 63
    with pytest.raises(ValidationError, match="crf: 52 is above 51, the largest of h264"):
        LeRobotExporter.Config(codec="h264", crf=52)


def test_statistics_of_all_rows_are_those_of_the_episodes_together():
    rng = np.random.default_rng(1)
    parts = [rng.standard_normal((n, 3)) for n in (5, 1, 40)]
    whole, merged = (
        column_stats(np.concatenate(parts)),
        merged_stats(list(map(column_stats, parts))),
    )
    for name in ("min", "max", "mean", "std", "count"):
        assert np.allclose(whole[name], merged[name]), name


def test_the_command_writes_completely_or_not_at_all(store: ZarrStore, tmp_path: Path, capsys):
    out = tmp_path / "out"
    words = ["data", "export", str(store.path), "codec=h264", "--out", str(out)]
    assert main(words) == 0
    assert "3 episodes" in capsys.readouterr().out
    assert main(words) == 2
    assert "is there already" in capsys.readouterr().err
    assert main([*words[:-1], str(tmp_path / "typo" / "out")]) == 2
    assert "typo: the folder does not exist; make it first" in capsys.readouterr().err
    assert not (tmp_path / "typo").exists()
    odd = ObsSpec(items={"eye": TensorSpec(shape=(3, 9, 8), dtype="uint8")})
    other = ZarrStore.create(tmp_path / "odd.zarr", odd, store.act_spec, {})
    images = np.zeros((1, 3, 9, 8), dtype=np.uint8)
    flags = {"terminated": np.array([False]), "truncated": np.array([True])}
    other.append(
        {
            "obs": {"eye": images},
            "act": np.zeros((1, 2), np.float32),
            "rew": np.zeros(1, np.float32),
            **flags,
            "success": False,
        }
    )
    with pytest.raises(DataError, match="a video has even sides; found 8 × 9"):
        LeRobotExporter(LeRobotExporter.Config()).export(other.path, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_folder_that_appears_meanwhile_is_not_replaced(
    store: ZarrStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    out, write = tmp_path / "out", LeRobotExporter._write_all

    def meanwhile(exporter: LeRobotExporter, path: Path, source: ZarrStore) -> None:
        write(exporter, path, source)
        out.mkdir()
        (out / "theirs").touch()

    monkeypatch.setattr(LeRobotExporter, "_write_all", meanwhile)
    with pytest.raises(DataError, match="out: is there already"):
        LeRobotExporter(LeRobotExporter.Config(codec="h264")).export(store.path, out)
    assert os.listdir(tmp_path) == ["out"]
    assert os.listdir(out) == ["theirs"]


def test_what_a_killed_export_left_is_gone_after_the_next(store: ZarrStore, tmp_path: Path):
    out = tmp_path / "out"
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from robo_rl.data.lerobot import exporter\n"
        "exporter.sync = lambda paths: os.kill(os.getpid(), signal.SIGKILL)\n"
        "made = exporter.LeRobotExporter(exporter.LeRobotExporter.Config(codec='h264'))\n"
        "made.export(Path(sys.argv[1]), Path(sys.argv[2]))\n"
    )
    ended = subprocess.run([sys.executable, "-c", code, store.path, out], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert not out.exists()
    LeRobotExporter(LeRobotExporter.Config(codec="h264")).export(store.path, out)
    assert os.listdir(tmp_path) == ["out"]


def test_all_files_reach_the_disk_before_the_dataset_has_its_name(
    store: ZarrStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    out, flushed = tmp_path / "out", list[Path]()

    def recorded(paths: Iterable[Path]) -> None:
        assert not out.exists()
        flushed.extend(paths)

    monkeypatch.setattr("robo_rl.data.lerobot.exporter.sync", recorded)
    LeRobotExporter(LeRobotExporter.Config(codec="h264")).export(store.path, out)
    written = {path.relative_to(out) for path in [out, *out.rglob("*")]}
    assert {path.relative_to(flushed[-1]) for path in flushed} == written


def test_what_lerobot_has_no_place_for_is_refused(tmp_path: Path, monkeypatch):
    act = ActSpec(shape=(1,), rate_hz=20.0)
    items = {"ticks": TensorSpec(shape=(1,), dtype="int64")}
    rows = {"act": np.zeros((1, 1), np.float32), "rew": np.zeros(1, np.float32)}
    rows |= {"terminated": np.array([False]), "truncated": np.array([True]), "success": False}
    store = ZarrStore.create(tmp_path / "a.zarr", ObsSpec(items=items), act, {})
    store.append({**rows, "obs": {"ticks": np.array([[7]])}})
    exporter = LeRobotExporter(LeRobotExporter.Config())
    assert exporter.export(store.path, tmp_path / "few") == 1
    store.append({**rows, "obs": {"ticks": np.array([[(1 << 24) + 1]])}})
    with pytest.raises(DataError, match=r"'obs\.ticks' holds numbers that float32 does not"):
        exporter.export(store.path, tmp_path / "out")
    words = {"note": TensorSpec(shape=(2,), dtype="int64", unit="token", high=(9.0, 9.0))}
    other = ZarrStore.create(tmp_path / "b.zarr", ObsSpec(items=words), act, {})
    other.append({**rows, "obs": {"note": np.array([[1, 2]])}})
    with pytest.raises(DataError, match="items of words that LeRobot has no place for"):
        exporter.export(other.path, tmp_path / "out")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "meta.json")

    monkeypatch.setattr(LeRobotExporter, "_write_all", full)
    with pytest.raises(DataError, match=r"meta\.json: could not be written: No space left"):
        exporter.export(store.path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_fixture_goes_through_and_back(tmp_path: Path):
    store = convert(TINY, tmp_path / "a.zarr")
    out = tmp_path / "lerobot"
    LeRobotExporter(LeRobotExporter.Config(crf=20)).export(store.path, out)
    assert json.loads((out / "meta/info.json").read_text())["robot_type"] == "so101_follower"
    cfg = LeRobotConverter.Config(mapping=str(out / MAPPING_FILE))
    LeRobotConverter(cfg).convert(out, tmp_path / "b.zarr")
    again = ZarrStore.open(tmp_path / "b.zarr")
    assert np.array_equal(store.read(["act"])["act"], again.read(["act"])["act"])


@pytest.mark.slow
def test_lerobots_own_reader_opens_it(exported: Path):
    """In an interpreter with lerobot, named by the environment variable ROBO_RL_LEROBOT_PYTHON."""
    python = os.environ.get("ROBO_RL_LEROBOT_PYTHON", "")
    if not shutil.which(python):
        pytest.skip("ROBO_RL_LEROBOT_PYTHON names no interpreter with lerobot")
    code = (
        "import sys\n"
        "from lerobot.datasets.lerobot_dataset import LeRobotDataset\n"
        "data = LeRobotDataset('made/up', root=sys.argv[1])\n"
        "row = data[len(data) - 1]\n"
        "print(len(data), tuple(row['action'].shape), row['task'])\n"
    )
    if json.loads((exported / "meta/info.json").read_text())["codebase_version"] != "v3.0":
        pytest.skip("lerobot 0.6 reads version 3.0")
    done = subprocess.run([python, "-c", code, exported], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip().endswith(f"{sum(LENGTHS)} (2,) task 0")
