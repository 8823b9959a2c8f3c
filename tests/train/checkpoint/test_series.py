"""A run goes on from the newest checkpoint that is whole."""

from __future__ import annotations

import random
import warnings

import pytest
import torch
from small_checkpoints import META, flip, make_tensors, names
from small_disk import mount_small_disk

from robo_rl.core import atomic_files as durable
from robo_rl.core.errors import CheckpointError, Notice
from robo_rl.train.checkpoint import files as checkpoint
from robo_rl.train.checkpoint.series import CheckpointSeries, latest


@pytest.fixture
def saved(tmp_path):
    return checkpoint.save(tmp_path / "ckpt" / "000003", make_tensors(), META)


def newest(root):
    found = latest(root)
    assert found is not None
    return found


def test_training_goes_on_to_the_bit_where_it_stopped(tmp_path):
    def train(steps, series, every=None):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2)
        optim = torch.optim.AdamW(model.parameters(), fused=True)
        generator, done = torch.Generator().manual_seed(1), 0
        if (state := series.load_latest()) is not None:
            model.load_state_dict(state["model"])
            optim.load_state_dict(state["optim"])
            generator.set_state(state["generator"])
            done = state["done"]
        for step in range(done, steps):
            optim.zero_grad()
            model(torch.randn(8, 4, generator=generator)).square().sum().backward()
            optim.step()
            if every and (step + 1) % every == 0:
                state = {"model": model.state_dict(), "optim": optim.state_dict()}
                state |= {"generator": generator.get_state(), "done": step + 1}
                series.save(step + 1, state)
        return model.weight.detach()

    straight = train(20, CheckpointSeries(tmp_path / "a"))
    train(10, CheckpointSeries(tmp_path / "b"), every=5)
    resumed = train(20, CheckpointSeries(tmp_path / "b"))
    assert torch.equal(straight, resumed)


@pytest.mark.parametrize("flips", [200, pytest.param(2000, marks=pytest.mark.slow)])
def test_every_flipped_byte_is_noticed_and_the_one_before_is_used(saved, flips):
    rng = random.Random(0)
    newer = checkpoint.save(saved.with_name("000004"), make_tensors(), META | {"step": 4})
    for _ in range(flips):
        file = newer / rng.choice(["tensors.safetensors", "meta.json"])
        whole = file.read_bytes()
        data = bytearray(whole)
        data[rng.randrange(len(data))] ^= rng.randrange(1, 256)
        file.write_bytes(data)
        with pytest.warns(Notice, match=rf"000004/{file.name}.*going back to .*000003"):
            path, _ = newest(saved.parent)
        assert path == saved
        file.write_bytes(whole)
    assert newest(saved.parent)[0] == newer


def test_none_is_not_the_same_as_none_readable(tmp_path, saved):
    assert latest(tmp_path / "nowhere") is None
    assert latest(tmp_path) is None
    flip(saved)
    with pytest.raises(CheckpointError, match="none of the checkpoints can be read"):
        latest(saved.parent)


def test_the_newest_is_the_greatest_number_and_leftovers_do_not_count(saved):
    root = saved.parent
    for step in (1_000_000, 999_999):
        checkpoint.save(root / f"{step:06d}", {}, {"step": step})
    (root / ".tmp-2000000-abc").mkdir()
    (root / "notes").mkdir()
    assert newest(root)[1].meta == {"step": 1_000_000}


def test_a_series_keeps_the_last_few(tmp_path):
    series = CheckpointSeries(tmp_path / "ckpt", keep=2)
    assert series.load_latest() is None
    for step in range(5):
        series.save(step, {"step": step, "x": torch.ones(2) * step})
    assert names(tmp_path / "ckpt") == ["000003", "000004"]
    assert series.load_latest()["step"] == 4


@pytest.fixture
def small_disk(tmp_path):
    with mount_small_disk(tmp_path / "disk") as disk:
        yield disk


def test_a_full_disk_is_an_error_and_training_can_go_on(small_disk):
    series = CheckpointSeries(small_disk / "ckpt")
    series.save(1, {"x": torch.zeros(1000)})
    with pytest.raises(CheckpointError, match="could not be saved: No space left"):
        series.save(2, {"x": torch.zeros(1 << 20)})
    assert names(small_disk / "ckpt") == ["000001"]
    series.save(3, {"x": torch.zeros(1000)})
    assert names(small_disk / "ckpt") == ["000001", "000003"]


def test_no_warning_where_all_is_well(saved):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert newest(saved.parent)[0] == saved
    assert durable.find_directory(saved) == saved
