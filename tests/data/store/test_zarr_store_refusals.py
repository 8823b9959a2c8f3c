"""What does not fit a store, or is not one any more, is refused by name."""

import numpy as np
import pytest
import zarr
from small_stores import ACT, concatenated, make_episode, make_store

from robo_rl.core import atomic_files as durable
from robo_rl.core.checksummed_json import seal, unseal
from robo_rl.core.errors import DataError
from robo_rl.core.spec import ObsSpec, TensorSpec
from robo_rl.data.store import arrays
from robo_rl.data.store.zarr_store import ZarrStore


def edit_metadata(file, change):
    doc = unseal(file.read_bytes(), within="attributes")
    change(doc)
    file.write_bytes(seal(doc, within="attributes"))


def append_record(store, **fields):
    record = {"start": 0, "length": 1, "success": True, "sha256": "0" * 64} | fields
    with (store.path / "commits.jsonl").open("ab") as file:
        file.write(seal(record) + b"\n")


BAD_EPISODES = {
    "act missing": (lambda e: e.pop("act"), "act: fields of the episode differ"),
    "unknown column": (lambda e: e.update(extra=e["rew"]), "extra: fields"),
    "obs missing": (lambda e: e["obs"].pop("image"), "obs.image: fields"),
    "no success": (lambda e: e.pop("success"), "success: fields"),
    "wrong dtype": (lambda e: e.update(act=e["act"].astype("f8")), r"'act'.*float32.*float64"),
    "wrong shape": (lambda e: e.update(act=e["act"][:, :1]), r"'act' does not fit"),
    "scalar": (lambda e: e.update(act=np.float32(1)), "no steps"),
    "shorter": (lambda e: e.update(rew=e["rew"][1:]), r"'rew' differs in length.*5 rows, found 4"),
    "NaN": (lambda e: e["act"].__setitem__((2, 1), np.nan), r"row 2: 'act' is not finite"),
    "inf": (lambda e: e["obs"]["joint_pos"].__setitem__((3, 0), np.inf), r"row 3.*joint_pos"),
    "terminated early": (lambda e: e["terminated"].__setitem__(2, True), "row 2: 'terminated' bef"),
    "truncated early": (lambda e: e["truncated"].__setitem__(0, True), "row 0: 'truncated' bef"),
    "no JSON": (lambda e: e.update(meta={"x": object()}), r"meta\.x.*cannot be recorded"),
}


@pytest.mark.parametrize("name", BAD_EPISODES)
def test_an_episode_that_does_not_fit_is_refused_as_a_whole(store, name):
    spoil, message = BAD_EPISODES[name]
    bad = make_episode(0)
    spoil(bad)
    with pytest.raises(DataError, match=message):
        store.extend([make_episode(1), bad])
    assert ZarrStore.open(store.path).episodes == ()


@pytest.mark.parametrize(
    "word", ["false", float("nan"), np.array([False, False]), np.array([True]), None, 1, 1.0]
)
def test_a_success_that_is_no_boolean_is_refused(store, word):
    with pytest.raises(DataError, match=r"success of an episode: .* is no boolean"):
        store.append(make_episode(0) | {"success": word})
    assert ZarrStore.open(store.path).episodes == ()


@pytest.mark.parametrize("yes", [True, np.True_])
def test_booleans_of_python_and_numpy_are_labels(store, yes):
    assert store.append(make_episode(0) | {"success": yes}).success is True


@pytest.mark.parametrize("name", ["../out", "a/b", "", ".", "a.b", "nul\0"])
def test_names_that_would_leave_the_store_are_refused(tmp_path, name):
    specs = ObsSpec(items={name: TensorSpec(shape=(1,))})
    with pytest.raises(DataError, match="cannot name an array"):
        ZarrStore.create(tmp_path / "data.zarr", specs, ACT, {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "spec", [{"shape": (1 << 40,)}, {"shape": (0,)}, {"shape": (), "dtype": "O"}]
)
def test_specs_that_cannot_be_stored_are_refused(tmp_path, spec):
    obs = ObsSpec(items={"x": TensorSpec(**spec)})
    with pytest.raises(DataError, match=r"obs\.x"):
        ZarrStore.create(tmp_path / "data.zarr", obs, ACT, {})


def test_a_path_that_is_taken_is_refused(store):
    with pytest.raises(DataError, match="there already"):
        make_store(store.path)


def test_what_is_no_store_is_said_to_be_none(tmp_path):
    with pytest.raises(DataError, match=r"is not a demonstration store.*no such directory"):
        ZarrStore.open(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"no zarr\.json"):
        ZarrStore.open(tmp_path)
    zarr.create_group(tmp_path / "foreign.zarr")
    with pytest.raises(DataError, match=r"foreign\.zarr/zarr\.json.*unreadable"):
        ZarrStore.open(tmp_path / "foreign.zarr")


def set_field(key, value):
    return lambda doc: doc.__setitem__(key, value)


BAD_FILES = {
    "newer": ("zarr.json", lambda d: d["attributes"].update(version=2), "newer schema"),
    "other": ("zarr.json", lambda d: d["attributes"].update(format="x"), "another format"),
    "traversal": (
        "zarr.json",
        lambda d: d["attributes"]["columns"].update({"../../x": {"shape": []}}),
        "cannot name an array",
    ),
    "bomb": (
        "zarr.json",
        lambda d: d["attributes"]["act_spec"].update(shape=[1 << 50], names=[], low=[], high=[]),
        "over 1 GiB",
    ),
    "dtype": ("act/zarr.json", set_field("data_type", "float64"), "float32.*float64"),
    "shape": ("act/zarr.json", set_field("shape", [8, 3]), r"shape differs.*\[8, 3\]"),
    "rows": ("act/zarr.json", set_field("shape", [-8, 2]), "rows differs"),
    "codecs": ("act/zarr.json", set_field("codecs", []), "codecs differs"),
    "short": ("act/zarr.json", set_field("shape", [0, 2]), "'act' is too short"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_metadata_that_does_not_fit_is_refused(store, name):
    store.append(make_episode(0))
    file, change, message = BAD_FILES[name]
    edit_metadata(store.path / file, change)
    with pytest.raises(DataError, match=message) as caught:
        ZarrStore.open(store.path)
    assert str(store.path / file.removesuffix("/zarr.json")) in str(caught.value)


def test_lengths_beyond_the_files_are_refused_before_anything_is_allocated(store):
    store.append(make_episode(0))
    append_record(store, start=8, length=1 << 40)
    with pytest.raises(DataError, match=r"too short.*at least 1099511627784 rows"):
        ZarrStore.open(store.path)
    for key in store.schema.arrays:
        path = arrays.array_path(store.path, key) / "zarr.json"
        edit_metadata(path, lambda doc: doc["shape"].__setitem__(0, 1 << 41))
    with pytest.raises(DataError, match=r"chunk files.*found 1\b"):
        ZarrStore.open(store.path)


def test_episodes_that_overlap_are_refused(store):
    store.append(make_episode(0))
    append_record(store, start=3, length=1)
    with pytest.raises(DataError, match="inside of the episode before"):
        ZarrStore.open(store.path)


def test_a_missing_array_is_named(store):
    durable.discard(store.path / "act")
    with pytest.raises(DataError, match=r"data\.zarr/act: array is missing"):
        ZarrStore.open(store.path)


def test_an_array_or_chunk_that_links_elsewhere_is_refused(store, tmp_path):
    store.append(make_episode(0))
    chunk = store.path / "act" / "c.0.0"
    chunk.rename(tmp_path / "chunk")
    chunk.symlink_to(tmp_path / "chunk")
    with pytest.raises(DataError, match=r"act/c\.0\.0: chunk is missing"):
        store.read()
    (store.path / "act").rename(tmp_path / "act")
    (store.path / "act").symlink_to(tmp_path / "act")
    with pytest.raises(DataError, match="outside of the store"):
        ZarrStore.open(store.path)


@pytest.mark.parametrize("damage", ["missing", "truncated", "flipped", "empty"])
def test_a_damaged_chunk_is_an_error_that_names_it(store, damage):
    store.extend(make_episode(index) for index in range(3))
    file = store.path / "obs" / "joint_pos" / "c.1.0"
    data = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        spoilt = {"truncated": data[:-7], "flipped": data[:-9] + b"??" + data[-7:], "empty": b""}
        file.write_bytes(spoilt[damage])
    with pytest.raises(DataError, match=r"obs/joint_pos/c\.1\.0"):
        store.read()
    np.testing.assert_array_equal(store.read(["act"])["act"], concatenated(range(3))["act"])
