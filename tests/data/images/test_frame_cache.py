"""Windows whose images are in files are those in memory; the files are used again, or made anew."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from small_stores import make_episode, make_store
from torch import Tensor

from robo_rl.core import memory
from robo_rl.core.errors import DeviceError
from robo_rl.data import dataset
from robo_rl.data.dataset import WindowDataset
from robo_rl.data.images import frame_cache
from robo_rl.data.store.zarr_store import ZarrStore

TO, H = 3, 4


@pytest.fixture
def store(tmp_path: Path) -> ZarrStore:
    made = make_store(tmp_path / "data.zarr")
    made.extend(make_episode(index) for index in range(5))
    return made


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "fits_memory", lambda needed: False)


def windows(data: WindowDataset) -> Mapping[str, Tensor]:
    batch = data.windows(torch.arange(len(data)).flip(0))
    return {**batch.obs, "act": batch.act}


def assert_same(one: WindowDataset, other: WindowDataset) -> None:
    ours, theirs = windows(one), windows(other)
    assert list(ours) == list(theirs)
    for name, value in ours.items():
        assert torch.equal(value, theirs[name])


@pytest.mark.usefixtures("small_memory")
def test_windows_are_those_in_memory(store, tmp_path):
    expected = WindowDataset(store, TO, H)
    found = WindowDataset(store, TO, H, frames=tmp_path / "frames")
    assert list((tmp_path / "frames").glob("*.images"))
    assert found._rows.keys() < expected._rows.keys()
    assert_same(found, expected)
    assert found.digest == expected.digest
    assert list(found.stats().keys) == list(expected.stats().keys)


def test_what_fits_the_memory_leaves_the_disk_alone(store, tmp_path):
    WindowDataset(store, TO, H, frames=tmp_path / "frames")
    assert not (tmp_path / "frames").exists()


@pytest.mark.usefixtures("small_memory")
def test_files_are_used_again_for_the_same_images_alone(store, tmp_path, monkeypatch):
    folder, decoded = tmp_path / "frames", []
    read = ZarrStore.read

    def counted(self, keys, episodes):
        decoded.extend(episodes if "obs.image" in keys else [])
        return read(self, keys, episodes)

    monkeypatch.setattr(ZarrStore, "read", counted)
    first = WindowDataset(store, TO, H, frames=folder)
    assert len(decoded) == 5
    assert_same(WindowDataset(store, TO, H, frames=folder), first)
    assert len(decoded) == 5
    few = WindowDataset(store, TO, H, among={1, 3}, frames=folder)
    assert len(decoded) == 7
    monkeypatch.undo()
    assert_same(few, WindowDataset(store, TO, H, among={1, 3}))


@pytest.mark.usefixtures("small_memory")
@pytest.mark.parametrize("damaged", ["*.images", "frames.json"])
def test_damaged_files_are_decoded_anew(store, tmp_path, damaged):
    folder = tmp_path / "frames"
    WindowDataset(store, TO, H, frames=folder)
    file = next(folder.glob(damaged))
    data = file.read_bytes()
    file.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    assert_same(WindowDataset(store, TO, H, frames=folder), WindowDataset(store, TO, H))


def test_images_that_nobody_reads_are_left_out(store):
    data = WindowDataset(store, TO, H, images=())
    assert "image" not in windows(data)
    assert set(windows(data)) == set(windows(WindowDataset(store, TO, H))) - {"image"}


@pytest.mark.usefixtures("small_memory")
def test_a_full_disk_is_one_line_and_leaves_no_file(store, tmp_path, monkeypatch):
    def full(*args: object) -> None:
        raise DeviceError("too little disk space")

    monkeypatch.setattr(frame_cache, "demand_disk", full)
    with pytest.raises(DeviceError, match="too little disk space"):
        WindowDataset(store, TO, H, frames=tmp_path / "frames")
    assert not (tmp_path / "frames").exists()


def test_half_of_the_available_memory_is_for_a_dataset(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 1000)
    assert memory.fits_memory(500)
    assert not memory.fits_memory(501)
