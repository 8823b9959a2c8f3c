"""kill -9 at random moments: nothing unreadable, nothing lost that was said to be saved.

Writers without these precautions are killed too, so that the tests are known to bite.
"""

import shutil
import warnings

import numpy as np
import pytest
import torch
from kill_writers import Killer
from safetensors import SafetensorError
from safetensors.torch import load
from small_stores import flat_rows, make_episode

from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.train.checkpoint import files as checkpoint
from robo_rl.train.checkpoint.series import CheckpointSeries

KILLS = pytest.mark.parametrize("kills", [10, pytest.param(200, marks=pytest.mark.slow)])
pytestmark = pytest.mark.timeout(900)
CONTROL_KILLS = 20
BITES = 0.2


@pytest.fixture
def killer():
    with Killer(seed=0) as killer:
        yield killer


def check_episodes(store, first):
    """All episodes from ``first`` on are exactly those that were written, in order."""
    episodes = store.episodes[first:]
    assert [record.seed for record in episodes] == list(range(first, len(store.episodes)))
    rows = store.read(episodes=episodes)
    for key, found in rows.items():
        expected = [flat_rows(make_episode(record.seed))[key] for record in episodes]
        np.testing.assert_array_equal(found, np.concatenate([found[:0], *expected]))


@KILLS
def test_a_killed_dataset_writer_leaves_committed_episodes_alone(killer, tmp_path, kills):
    seen = acknowledged = 0
    for _ in range(kills):
        saved = killer.run("store", tmp_path, longest_s=0.1)
        if not (tmp_path / "data.zarr").exists():
            assert not saved
            continue
        acknowledged = max([acknowledged, *(step + 1 for step in saved)])
        store = ZarrStore.open(tmp_path / "data.zarr")
        assert len(store.episodes) >= acknowledged
        check_episodes(store, seen)
        seen = len(store.episodes)
    assert seen > kills / 4
    check_episodes(store, 0)
    assert store.verify().ok


@pytest.mark.slow
def test_the_same_kills_leave_zeros_in_a_plain_zarr_array(killer, tmp_path):
    import zarr

    bitten = 0
    for _ in range(CONTROL_KILLS):
        killer.run("plain_zarr", tmp_path, longest_s=0.1)
        path = tmp_path / "plain.zarr"
        arrays = [zarr.open_array(file.parent, mode="r") for file in path.glob("*/zarr.json")]
        bitten += any((np.asarray(array[:]) == 0).any() for array in arrays)
        shutil.rmtree(path, ignore_errors=True)
    assert bitten >= BITES * CONTROL_KILLS


@KILLS
def test_a_killed_checkpoint_writer_leaves_whole_checkpoints_alone(killer, tmp_path, kills):
    series, acknowledged, root = CheckpointSeries(tmp_path / "ckpt"), 0, tmp_path / "ckpt"
    for _ in range(kills):
        saved = killer.run("checkpoints", tmp_path, longest_s=0.03)
        acknowledged = max([acknowledged, *saved])
        numbered = [path for path in root.glob("[0-9]*")] if root.exists() else []
        for path in numbered:
            assert checkpoint.load(path).meta["state"]["step"] == int(path.name)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            state = series.load_latest()
        if state is None:
            assert not acknowledged
            continue
        assert state["step"] >= acknowledged
        assert all((weights == state["step"]).all() for weights in state["weights"])
    assert acknowledged > kills / 4


@KILLS
def test_a_killed_replacement_leaves_the_old_or_the_new_one(killer, tmp_path, kills):
    acknowledged = 0
    for _ in range(kills):
        saved = killer.run("replaced_checkpoint", tmp_path, longest_s=0.03)
        acknowledged = max([acknowledged, *saved])
        if not acknowledged:
            continue
        tensors, meta = checkpoint.load(tmp_path / "best")
        assert meta["step"] >= acknowledged
        assert torch.equal(tensors["weights"], torch.full((50_000,), float(meta["step"])))
    assert acknowledged > kills / 4


@pytest.mark.slow
def test_the_same_kills_spoil_a_file_that_is_written_in_place(killer, tmp_path):
    bitten = 0
    for _ in range(CONTROL_KILLS):
        saved = killer.run("in_place", tmp_path, longest_s=0.03)
        file = tmp_path / "model.safetensors"
        try:
            weights = load(file.read_bytes())["weights"]
            bitten += bool((weights != weights[0]).any())
        except (FileNotFoundError, SafetensorError):
            bitten += bool(saved) or file.exists()
        file.unlink(missing_ok=True)
    assert bitten >= BITES * CONTROL_KILLS
