"""HDF5 of robomimic, Minari and D4RL in, robomimic out; what is damaged or strange is one line."""

from __future__ import annotations

import json
import resource
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import yaml

from robo_rl.cli.main import main
from robo_rl.core.errors import DataError
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.data.hdf5.converter import Hdf5Converter
from robo_rl.data.hdf5.episodes import read_episodes, read_layout
from robo_rl.data.hdf5.exporter import RobomimicExporter
from robo_rl.data.hdf5.files import open_file
from robo_rl.data.hdf5.new_file import new_file
from robo_rl.data.store.verify import verify
from robo_rl.data.store.zarr_store import ZarrStore

LENGTHS = (5, 3)
ARGS = {"env_name": "Lift", "env_kwargs": {"control_freq": 20, "robots": ["Panda"]}}
MAPPING: dict[str, Any] = {
    "obs": {"ee_pos": {"source": "obs/robot0_eef_pos", "units": ["m"]}},
    "cameras": {"eye_rgb": {"source": "obs/agentview_image", "width": 16, "height": 16}},
    "act": {"source": "actions", "units": ["1"]},
    "act_reference": "delta",
    "success": True,
    "rew": "rewards",
}


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def robomimic(path: Path) -> Path:
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["env_args"] = json.dumps(ARGS)
        for number, length in enumerate(LENGTHS):
            demo = data.create_group(f"demo_{number}")
            demo["actions"] = numbers(length, 7, seed=number)
            demo["rewards"] = np.arange(length, dtype=np.float64)
            demo["dones"] = (np.arange(length) == length - 1).astype(np.int64)
            demo["states"] = numbers(length, 30)
            demo["obs/robot0_eef_pos"] = numbers(length, 3, seed=9 + number)
            images = np.random.default_rng(number).integers(0, 256, (length, 16, 16, 3))
            demo["obs/agentview_image"] = images.astype(np.uint8)
    return path


def minari(path: Path) -> Path:
    with h5py.File(path, "w") as file:
        for number, length in enumerate(LENGTHS):
            episode = file.create_group(f"episode_{number}")
            episode["observations/pos"] = numbers(length + 1, 4, seed=number)
            episode["actions"] = numbers(length, 2, seed=number)
            episode["rewards"] = np.ones(length)
            episode["terminations"] = np.arange(length) == (length - 1 if number else length)
            solved = np.arange(length + 1) == length  # after the last action
            episode["infos/success"] = solved
            episode["truncations"] = np.arange(length) == (length if number else length - 1)
    return path


def d4rl(path: Path) -> Path:
    rows = sum(LENGTHS)
    with h5py.File(path, "w") as file:
        file["observations"], file["actions"] = numbers(rows, 4), numbers(rows, 2)
        file["rewards"] = np.arange(rows, dtype=np.float32)
        file["terminals"] = np.arange(rows) == LENGTHS[0] - 1
        file["timeouts"] = np.arange(rows) == rows - 1
        file["metadata/algorithm"] = "sac"
    return path


def convert(path: Path, out: Path, mapping: dict[str, Any], **cfg: Any) -> ZarrStore:
    file = out.parent / "mapping.yaml"
    file.write_text(yaml.safe_dump(mapping))
    Hdf5Converter(Hdf5Converter.Config(mapping=str(file), **cfg)).convert(path, out)
    return ZarrStore.open(out)


def plain(source: str) -> dict[str, Any]:
    own = {"state": {"source": source, "units": ["1"]}}
    return {**MAPPING, "obs": own, "cameras": {}, "act_reference": "absolute", "success": False}


def test_robomimic_is_read_as_it_is(tmp_path: Path):
    store = convert(robomimic(tmp_path / "a.hdf5"), tmp_path / "data.zarr", MAPPING)
    rows = store.read()
    assert [record.length for record in store.episodes] == list(LENGTHS)
    assert np.array_equal(rows["act"][:5], numbers(5, 7).astype(np.float32))
    assert np.array_equal(rows["obs.ee_pos"][5:], numbers(3, 3, seed=10).astype(np.float32))
    assert np.array_equal(rows["rew"], [0, 1, 2, 3, 4, 0, 1, 2])
    with h5py.File(tmp_path / "a.hdf5") as file:
        images = np.asarray(file["data/demo_1/obs/agentview_image"])
    assert np.array_equal(rows["obs.eye_rgb"][5:], images.transpose(0, 3, 1, 2))
    assert rows["terminated"].tolist() == [False] * 4 + [True, False, False, True]
    assert store.act_spec.rate_hz == 20.0
    assert store.act_spec.reference == "delta"
    assert verify(store.path).ok


@pytest.mark.parametrize("make", [minari, d4rl])
def test_minari_and_d4rl_are_read_with_their_ends(tmp_path: Path, make):
    mapping = plain("obs/pos" if make is minari else "obs/state")
    store = convert(make(tmp_path / "a.hdf5"), tmp_path / "data.zarr", mapping, rate_hz=50.0)
    rows = store.read()
    assert [record.length for record in store.episodes] == list(LENGTHS)
    first = rows["terminated"][4], rows["truncated"][4]
    last = rows["terminated"][7], rows["truncated"][7]
    ended, cut = (True, False), (False, True)
    assert (first, last) == ((cut, ended) if make is minari else (ended, cut))
    if make is minari:
        told = {**mapping, "success": "infos/success"}
        solved = convert(make(tmp_path / "b.hdf5"), tmp_path / "b.zarr", told, rate_hz=50.0)
        assert [each.success for each in solved.episodes] == [True, True]
        assert np.array_equal(rows["obs.state"][:5], numbers(6, 4)[:5].astype(np.float32))


def test_a_draft_names_the_columns(tmp_path: Path, capsys):
    path = robomimic(tmp_path / "a.hdf5")
    assert main(["data", "convert", str(path), "--from", "hdf5", "--explain"]) == 0
    text = capsys.readouterr().out
    assert "robomimic, 2 episodes, 8 rows, 20 a second, robot Panda" in text
    drafted = yaml.safe_load(text)
    assert set(drafted["obs"]) == {"robot0_eef_pos"}
    assert drafted["cameras"]["agentview_image_rgb"]["width"] == 16
    assert drafted["act"]["source"] == "actions"
    assert drafted["terminated"] == "terminated"


def with_columns(path: Path) -> Path:
    """The same file with an executed action beside the label, and flags of a human's rows."""
    with h5py.File(path, "a") as file:
        for number, length in enumerate(LENGTHS):
            file[f"data/demo_{number}/executed_action"] = numbers(length, 7, seed=20 + number)
            file[f"data/demo_{number}/intervention"] = np.arange(length) % 2 == 0
    return path


def test_what_is_exported_reads_back(tmp_path: Path):
    columns = {"executed": {**MAPPING["act"], "source": "executed_action"}}
    columns |= {"intervention": "intervention"}
    source = with_columns(robomimic(tmp_path / "a.hdf5"))
    store = convert(source, tmp_path / "data.zarr", {**MAPPING, **columns})
    out = tmp_path / "b.hdf5"
    assert RobomimicExporter(RobomimicExporter.Config()).export(store.path, out) == 2
    with h5py.File(out) as file:
        assert file["data"].attrs["total"] == 8
        assert file["data/demo_0"].attrs["num_samples"] == 5
        assert np.asarray(file["mask/success"]).tolist() == [b"demo_0", b"demo_1"]
    back = {
        **MAPPING,
        **columns,
        "obs": {"ee_pos": {"source": "obs/ee_pos", "units": ["m"]}},
        "cameras": {"eye_rgb": {"source": "obs/eye_rgb", "width": 16, "height": 16}},
    }
    again = convert(out, tmp_path / "again.zarr", back)
    ours, theirs = store.read(), again.read()
    assert {"executed", "intervention"} < set(ours)
    assert all(np.array_equal(ours[key], theirs[key]) for key in ours)
    with pytest.raises(DataError, match="is there already"):
        RobomimicExporter(RobomimicExporter.Config()).export(store.path, out)


def test_an_export_says_which_episodes_succeeded(tmp_path: Path):
    """The drafted mapping reads it back."""
    with h5py.File(robomimic(tmp_path / "a.hdf5"), "a") as file:
        for number, length in enumerate(LENGTHS):
            file[f"data/demo_{number}/solved"] = np.full(length, number == 0)
    store = convert(tmp_path / "a.hdf5", tmp_path / "a.zarr", {**MAPPING, "success": "solved"})
    RobomimicExporter(RobomimicExporter.Config()).export(store.path, tmp_path / "b.hdf5")
    with h5py.File(tmp_path / "b.hdf5") as file:
        assert np.asarray(file["data/demo_0/successes"]).tolist() == [0, 0, 0, 0, 1]
    text = Hdf5Converter(Hdf5Converter.Config()).explain(tmp_path / "b.hdf5")
    assert "success: successes\n" in text
    drafted = yaml.safe_load(text.replace("act_reference: ???", "act_reference: delta"))
    drafted["obs"]["ee_pos"]["units"], drafted["act"]["units"] = ["m"], ["1"]
    again = convert(tmp_path / "b.hdf5", tmp_path / "b.zarr", drafted)
    assert [each.success for each in again.episodes] == [True, False]
    assert [each.success for each in store.episodes] == [True, False]


@pytest.mark.parametrize("axis", [1, 3], ids=["first", "last"])
def test_an_image_of_one_channel_becomes_grey(tmp_path: Path, axis: int):
    grey = np.random.default_rng(0).integers(0, 256, (5, 16, 16), np.uint8)
    with h5py.File(robomimic(tmp_path / "a.hdf5"), "a") as file:
        for number, length in enumerate(LENGTHS):
            del file[f"data/demo_{number}/obs/agentview_image"]
            shown = np.expand_dims(grey[:length], axis)
            file[f"data/demo_{number}/obs/agentview_image"] = shown
    store = convert(tmp_path / "a.hdf5", tmp_path / "a.zarr", MAPPING)
    found = store.read(["obs.eye_rgb"])["obs.eye_rgb"]
    assert np.array_equal(found[:5], np.repeat(grey[:, None], 3, axis=1))


@pytest.mark.parametrize("channels", [2, 4])
def test_an_array_of_other_channels_is_no_image(tmp_path: Path, channels: int):
    with h5py.File(robomimic(tmp_path / "a.hdf5"), "a") as file:
        for number, length in enumerate(LENGTHS):
            del file[f"data/demo_{number}/obs/agentview_image"]
            shown = np.zeros((length, 16, 16, channels), np.uint8)
            file[f"data/demo_{number}/obs/agentview_image"] = shown
    with pytest.raises(DataError, match=r"cameras\.eye_rgb: 'obs/agentview_image' is no camera"):
        convert(tmp_path / "a.hdf5", tmp_path / "a.zarr", MAPPING)


def test_changes_of_shares_have_no_offset_and_fit_what_was_executed(tmp_path: Path):
    """Also where the executed action is a column beside the label."""
    path = robomimic(tmp_path / "a.hdf5")
    with h5py.File(path, "a") as file:
        for number, length in enumerate(LENGTHS):
            for name in ("label", "done"):
                file[f"data/demo_{number}/{name}"] = np.zeros((length, 2))
    shares = {"units": ["range_m100_100", "percent"], "range_of": {"0": [-1.9, 1.2], "1": [-1, 2]}}
    act, executed = ({"source": name, **shares} for name in ("label", "done"))
    mapping = {**MAPPING, "act": act, "executed": executed}
    rows = convert(path, tmp_path / "a.zarr", mapping).read()
    assert not rows["act"].any()
    assert not rows["executed"].any()
    half = {**mapping, "act_reference": "delta,absolute"}
    rows = convert(path, tmp_path / "b.zarr", half).read()
    assert rows["act"][0].tolist() == rows["executed"][0].tolist() == [0.0, -1.0]
    other = {**mapping, "executed": {"source": "done", "units": ["rad", "m"]}}
    with pytest.raises(DataError, match="executed: does not fit the action; expected"):
        convert(path, tmp_path / "c.zarr", other)


def with_nan(path: Path) -> None:
    with h5py.File(path, "a") as file:
        actions: Any = file["data/demo_1/actions"]
        actions[2, 3] = np.nan


def too_short(path: Path) -> None:
    with h5py.File(path, "a") as file:
        del file["data/demo_1/obs/robot0_eef_pos"]
        file["data/demo_1/obs/robot0_eef_pos"] = np.zeros((2, 3))


def without_column(path: Path) -> None:
    with h5py.File(path, "a") as file:
        del file["data/demo_1/obs/robot0_eef_pos"]


def elsewhere(path: Path) -> None:
    """A column that is a link to another file, such as a secret of whoever converts."""
    other = path.with_name("other.hdf5")
    with h5py.File(other, "w") as file:
        file["x"] = np.zeros((3, 3))
    with h5py.File(path, "a") as file:
        del file["data/demo_1/obs/robot0_eef_pos"]
        file["data/demo_1/obs/robot0_eef_pos"] = h5py.ExternalLink("other.hdf5", "/x")


def group_elsewhere(path: Path) -> None:
    """All demonstrations are a link to another file."""
    path.rename(path.with_name("other.hdf5"))
    with h5py.File(path, "w") as file:
        file["data"] = h5py.ExternalLink("other.hdf5", "/data")


def values_elsewhere(path: Path) -> None:
    """A column whose bytes are those of another file."""
    path.with_name("secret").write_bytes(bytes(100))
    with h5py.File(path, "a") as file:
        del file["data/demo_1/obs/robot0_eef_pos"]
        outside = [(str(path.with_name("secret")), 0, 72)]
        file.create_dataset("data/demo_1/obs/robot0_eef_pos", (3, 3), "f8", external=outside)


def virtual(path: Path) -> None:
    with h5py.File(path, "a") as file:
        del file["data/demo_1/obs/robot0_eef_pos"]
        layout = h5py.VirtualLayout((3, 3), "f8")
        layout[:] = h5py.VirtualSource("other.hdf5", "x", (3, 3))
        file.create_virtual_dataset("data/demo_1/obs/robot0_eef_pos", layout)


def wide(path: Path) -> None:
    with h5py.File(path, "a") as file:
        del file["data/demo_1/actions"]
        file["data/demo_1/actions"] = np.zeros((3, 8))


def too_long(path: Path) -> None:
    with h5py.File(path, "a") as file:
        del file["data/demo_1/obs/robot0_eef_pos"]
        file["data/demo_1/obs/robot0_eef_pos"] = np.zeros((4, 3))


def one_array(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["data"] = np.zeros((3, 3))


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def nothing(path: Path) -> None:
    with h5py.File(path, "a") as file:
        del file["data"]


DAMAGE = {
    "NaN": (with_nan, "demo_1 actions row 2: is not finite"),
    "short": (too_short, "another number of rows; expected 3, found 2"),
    "missing": (without_column, "a column is missing; found obs/robot0_eef_pos"),
    "link": (elsewhere, "a column is missing; found obs/robot0_eef_pos"),
    "group link": (group_elsewhere, "has an unknown layout"),
    "external values": (values_elsewhere, "a column is missing; found obs/robot0_eef_pos"),
    "virtual": (virtual, "a column is missing; found obs/robot0_eef_pos"),
    "wide": (wide, "demo_1 actions: another shape than before; expected (7,), found (8,)"),
    "long": (too_long, "another number of rows; expected 3, found 4"),
    "array": (one_array, "has an unknown layout"),
    "truncated": (truncated, "unreadable"),
    "layout": (nothing, "has an unknown layout"),
    "no file": (lambda path: path.unlink(), "is no HDF5 file"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_one_line_and_nothing_is_half_converted(tmp_path: Path, name: str):
    path = robomimic(tmp_path / "a.hdf5")
    harm, said = DAMAGE[name]
    harm(path)
    with pytest.raises(DataError) as caught:
        convert(path, tmp_path / "data.zarr", MAPPING)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "data.zarr").exists()


def with_early_ends(path: Path) -> Path:
    """Flags of robomimic's ``done_mode 0``: whether the task is solved, row by row."""
    with h5py.File(path, "a") as file:
        dones: Any = file["data/demo_0/dones"]
        dones[:] = [0, 0, 1, 1, 0]
    return path


def test_an_episode_ends_at_its_first_flag_and_what_is_left_out_is_told(tmp_path: Path, capsys):
    path = with_early_ends(robomimic(tmp_path / "a.hdf5"))
    file = tmp_path / "mapping.yaml"
    file.write_text(yaml.safe_dump(MAPPING))
    words = ["data", "convert", str(path), "--from", "hdf5", f"mapping={file}"]
    assert main([*words, "--out", str(tmp_path / "data.zarr")]) == 0
    assert "left out: 2 rows behind the first flag `terminated` of 1 episode" in " ".join(
        capsys.readouterr().out.split()
    )
    store = ZarrStore.open(tmp_path / "data.zarr")
    assert [each.length for each in store.episodes] == [3, 3]
    assert store.episodes[0].meta == {"rows_after_end": 2}
    assert store.read(["terminated"])["terminated"].tolist() == [False, False, True] * 2
    assert store.read(["rew"])["rew"].tolist() == [0, 1, 2] * 2
    whole = convert(path, tmp_path / "whole.zarr", {**MAPPING, "terminated": False})
    assert [each.length for each in whole.episodes] == list(LENGTHS)
    assert not whole.read(["terminated"])["terminated"].any()


def test_a_success_behind_the_end_does_not_count(tmp_path: Path):
    path = with_early_ends(robomimic(tmp_path / "a.hdf5"))
    with h5py.File(path, "a") as file:
        for number, length in enumerate(LENGTHS):
            file[f"data/demo_{number}/solved"] = np.arange(length) == length - 1
    store = convert(path, tmp_path / "data.zarr", {**MAPPING, "success": "solved"})
    assert [each.success for each in store.episodes] == [False, True]


def test_flags_of_d4rl_fit_its_actions(tmp_path: Path):
    path = d4rl(tmp_path / "a.hdf5")
    with h5py.File(path, "a") as file:
        del file["timeouts"]
        file["timeouts"] = np.zeros(3, np.bool_)
    with pytest.raises(DataError, match=r"timeouts: another shape; expected \(8,\), found \(3,\)"):
        convert(path, tmp_path / "data.zarr", plain("obs/state"), rate_hz=50.0)


def without_timeouts(path: Path) -> Path:
    with h5py.File(d4rl(path), "a") as file:
        del file["timeouts"]
    return path


def test_episodes_of_d4rl_without_timeouts_are_not_joined_across_resets(tmp_path: Path):
    path, mapping = without_timeouts(tmp_path / "a.hdf5"), plain("obs/state")
    with pytest.raises(DataError, match=r"not say where episodes were cut.*set max_steps="):
        convert(path, tmp_path / "data.zarr", mapping, rate_hz=50.0)
    store = convert(path, tmp_path / "data.zarr", mapping, rate_hz=50.0, max_steps=2)
    rows = store.read(["terminated", "truncated"])
    assert [each.length for each in store.episodes] == [2, 2, 1, 2, 1]
    assert rows["terminated"].nonzero()[0].tolist() == [4]
    assert rows["truncated"].nonzero()[0].tolist() == [1, 3, 6, 7]
    exact = convert(path, tmp_path / "exact.zarr", mapping, rate_hz=50.0, max_steps=5)
    assert [each.length for each in exact.episodes] == list(LENGTHS)


@pytest.mark.parametrize("make", [robomimic, minari, d4rl])
def test_a_time_limit_is_refused_where_the_file_tells_the_ends(tmp_path: Path, make):
    with pytest.raises(DataError, match="says itself where episodes were cut; omit max_steps"):
        read_layout(make(tmp_path / "a.hdf5"), max_steps=1000)


@pytest.mark.parametrize("make", [robomimic, minari, d4rl])
def test_whatever_bytes_are_damaged_the_error_is_a_line(tmp_path: Path, make):
    """Offsets, types and names within the file included."""
    path = make(tmp_path / "a.hdf5")
    whole = path.read_bytes()
    filled = np.flatnonzero(np.frombuffer(whole, np.uint8))
    told = list[str]()
    for seed in range(150):
        rng, data = np.random.default_rng(seed), bytearray(whole)
        for at in rng.choice(filled, 4):
            data[at] = rng.integers(256)
        path.write_bytes(data)
        try:
            layout = read_layout(path)
            list(read_episodes(path, layout, set(layout.features)))
        except DataError as error:
            told.append(str(error))
    assert len(told) > 20
    assert all("\n" not in line and str(path) in line for line in told)


def test_a_mistake_of_the_reading_code_is_no_damage(tmp_path: Path):
    for error in (KeyError, TypeError, ValueError):
        with pytest.raises(error), open_file(robomimic(tmp_path / "a.hdf5")):
            raise error("of the code")


def test_many_short_episodes_are_committed_together(tmp_path: Path, monkeypatch):
    path = d4rl(tmp_path / "a.hdf5")
    commits = list[int]()
    extend = ZarrStore.extend

    def counted(store: ZarrStore, episodes: Any) -> Any:
        commits.append(len(episodes))
        return extend(store, episodes)

    monkeypatch.setattr(ZarrStore, "extend", counted)
    together = convert(path, tmp_path / "a.zarr", plain("obs/state"), rate_hz=50.0)
    monkeypatch.setattr("robo_rl.data.columns.conversion._BLOCK_BYTES", 1)
    apart = convert(path, tmp_path / "b.zarr", plain("obs/state"), rate_hz=50.0)
    assert commits == [2, 1, 1]
    assert together.digest() == apart.digest()


def test_a_rate_is_not_guessed(tmp_path: Path):
    with pytest.raises(DataError, match=r"does not say its rate; set rate_hz"):
        convert(minari(tmp_path / "a.hdf5"), tmp_path / "data.zarr", plain("obs/pos"))


def test_an_export_that_fails_leaves_nothing(tmp_path: Path, monkeypatch):
    obs = ObsSpec(items={"x": TensorSpec(shape=(1,))})
    act = ActSpec(shape=(1,), rate_hz=10.0)
    empty = ZarrStore.create(tmp_path / "empty.zarr", obs, act, {})
    exporter = RobomimicExporter(RobomimicExporter.Config())
    with pytest.raises(DataError, match="holds no episode"):
        exporter.export(empty.path, tmp_path / "out.hdf5")
    store = convert(robomimic(tmp_path / "a.hdf5"), tmp_path / "data.zarr", MAPPING)

    def fails(*_: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(RobomimicExporter, "_write_episode", fails)
    with pytest.raises(DataError, match=r"out\.hdf5: could not be written: no space left"):
        exporter.export(store.path, tmp_path / "out.hdf5")
    assert sorted(path.name for path in tmp_path.glob("*out*")) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_disk_is_told_as_such(tmp_path: Path, monkeypatch, capfd):
    """Also where HDF5 reports the error to nobody."""
    store = convert(robomimic(tmp_path / "a.hdf5"), tmp_path / "data.zarr", MAPPING)
    full = nullcontext(Path("/dev/full"))
    monkeypatch.setattr("robo_rl.data.hdf5.exporter.built_beside", lambda _: full)
    with pytest.raises(DataError) as caught:
        RobomimicExporter(RobomimicExporter.Config()).export(store.path, tmp_path / "out.hdf5")
    problem = "could not be written: No space left on device; free space or check the permissions"
    assert f"{tmp_path / 'out.hdf5'}: {problem}" in str(caught.value)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_no_failed_write_goes_unnoticed(tmp_path: Path, compression: str | None):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    values = numbers(30_000)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
        with (
            pytest.raises(OSError, match="File too large"),
            new_file(tmp_path / "a.hdf5") as (file, _),
        ):
            file.create_dataset("values", data=values, compression=compression)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with new_file(tmp_path / "b.hdf5") as (file, demand_written):
        file.create_dataset("values", data=values, compression=compression)
        demand_written()
    with open_file(tmp_path / "b.hdf5") as file:
        assert np.array_equal(file["values"], values)
