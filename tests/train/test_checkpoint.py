import errno
import os
import pickle
import random
import resource
import shutil
import struct
import warnings

import pytest
import torch
from small_disk import mount_small_disk

from robo_rl import durable
from robo_rl.errors import CheckpointError
from robo_rl.seal import seal, unseal
from robo_rl.train import checkpoint
from robo_rl.train.checkpoint import CheckpointSeries

META = {"step": 3, "note": "ü", "low": float("-inf"), "nested": {"list": [1, 2.5, None]}}


def make_tensors():
    generator = torch.Generator().manual_seed(0)
    return {
        "weight": torch.randn(5, 3, generator=generator),
        "bf16": torch.randn(4, generator=generator).bfloat16(),
        "count": torch.tensor(7),
        "mask": torch.tensor([True, False]),
        "state": generator.get_state(),
        "empty": torch.zeros(0, 2),
    }


@pytest.fixture
def saved(tmp_path):
    return checkpoint.save(tmp_path / "ckpt" / "000003", make_tensors(), META)


def newest(root):
    found = checkpoint.latest(root)
    assert found is not None
    return found


def names(path):
    return sorted(entry.name for entry in path.iterdir())


def reseal(path, change):
    doc = unseal((path / "meta.json").read_bytes())
    change(doc)
    (path / "meta.json").write_bytes(seal(doc))


def put_tensors(path, data):
    """Other bytes under a manifest that vouches for them."""
    import hashlib

    (path / "tensors.safetensors").write_bytes(data)
    record = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    reseal(path, lambda doc: doc.update(tensors=record))


def test_what_was_saved_is_loaded_to_the_bit(saved):
    tensors, meta = checkpoint.load(saved)
    expected = make_tensors()
    assert tensors.keys() == expected.keys()
    for name, tensor in expected.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name], tensor)
    assert meta == META | {"low": "-inf"}
    assert names(saved.parent) == ["000003"]


def test_views_and_shared_weights_are_saved_by_value(tmp_path):
    base = torch.arange(12.0).reshape(3, 4)
    tensors = {"base": base, "same": base, "column": base[:, 1], "transposed": base.T}
    loaded = checkpoint.load(checkpoint.save(tmp_path / "a", tensors, {})).tensors
    assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors.items())
    assert sum(f.stat().st_size for f in (tmp_path / "a").iterdir()) < 2000


def test_saving_again_replaces(saved):
    checkpoint.save(saved, {"weight": torch.ones(2)}, {"step": 4})
    tensors, meta = checkpoint.load(saved)
    assert meta == {"step": 4}
    assert list(tensors) == ["weight"]
    assert names(saved.parent) == ["000003"]


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


def truncate(path):
    file = path / "tensors.safetensors"
    file.write_bytes(file.read_bytes()[:-5])


def flip(path, name="tensors.safetensors"):
    file = path / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


BAD = {
    "truncated": (truncate, r"tensors\.safetensors: is truncated.*bytes, found"),
    "flipped": (flip, r"tensors\.safetensors: is damaged"),
    "meta flipped": (lambda path: flip(path, "meta.json"), r"meta\.json: unreadable"),
    "meta empty": (lambda path: (path / "meta.json").write_bytes(b""), r"meta\.json: unreadable"),
    "tensors gone": (lambda path: (path / "tensors.safetensors").unlink(), "cannot be read"),
    "meta gone": (lambda path: (path / "meta.json").unlink(), r"is no checkpoint.*no meta\.json"),
    "newer": (lambda path: reseal(path, lambda d: d.update(schema=2)), "version 1, found 2.*newer"),
    "no fields": (lambda path: reseal(path, lambda d: d.pop("meta")), "lacks fields"),
    "header": (lambda path: put_tensors(path, struct.pack("<Q", 1 << 63)), "no safetensors file"),
    "no header": (lambda path: put_tensors(path, b""), "no safetensors file"),
    "pickle": (lambda path: put_tensors(path, pickle.dumps([1])), "no safetensors file"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_damaged_checkpoint_is_an_error_that_names_it(saved, name):
    spoil, message = BAD[name]
    spoil(saved)
    with pytest.raises(CheckpointError, match=message) as caught:
        checkpoint.load(saved)
    assert str(saved) in str(caught.value)


def test_a_checkpoint_that_is_not_there_is_said_to_be_so(tmp_path):
    with pytest.raises(CheckpointError, match=r"nowhere: does not exist"):
        checkpoint.load(tmp_path / "nowhere")


class Canary:
    """Says so when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


def test_pickles_are_never_executed(saved, tmp_path):
    payload = pickle.dumps(Canary(tmp_path / "canary"))
    torch.save(Canary(tmp_path / "canary"), tmp_path / "torch.pt")
    for data in (payload, (tmp_path / "torch.pt").read_bytes()):
        put_tensors(saved, data)
        with pytest.raises(CheckpointError):
            checkpoint.load(saved)
        (saved / "meta.json").write_bytes(data)
        with pytest.raises(CheckpointError):
            checkpoint.load(saved)
        shutil.rmtree(saved)
        checkpoint.save(saved, make_tensors(), META)
    assert not (tmp_path / "canary").exists()


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
        with pytest.warns(UserWarning, match=rf"000004/{file.name}.*going back to .*000003"):
            path, _ = newest(saved.parent)
        assert path == saved
        file.write_bytes(whole)
    assert newest(saved.parent)[0] == newer


def test_none_is_not_the_same_as_none_readable(tmp_path, saved):
    assert checkpoint.latest(tmp_path / "nowhere") is None
    assert checkpoint.latest(tmp_path) is None
    flip(saved)
    with pytest.raises(CheckpointError, match="none of the checkpoints can be read"):
        checkpoint.latest(saved.parent)


def test_the_newest_is_the_greatest_number_and_leftovers_do_not_count(saved):
    root = saved.parent
    for step in (1_000_000, 999_999):
        checkpoint.save(root / f"{step:06d}", {}, {"step": step})
    (root / ".tmp-2000000-abc").mkdir()
    (root / "notes").mkdir()
    assert newest(root)[1].meta == {"step": 1_000_000}


def test_a_replacement_killed_half_way_still_loads(saved):
    saved.rename(saved.with_name(".old-000003"))
    assert checkpoint.load(saved).meta["step"] == 3
    assert newest(saved.parent)[1].meta["step"] == 3


def test_a_series_keeps_the_last_few(tmp_path):
    series = CheckpointSeries(tmp_path / "ckpt", keep=2)
    assert series.load_latest() is None
    for step in range(5):
        series.save(step, {"step": step, "x": torch.ones(2) * step})
    assert names(tmp_path / "ckpt") == ["000003", "000004"]
    assert series.load_latest()["step"] == 4


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EXDEV, errno.EIO])
@pytest.mark.parametrize("call", ["fsync", "rename", "mkdir"])
def test_a_failed_save_says_so_and_leaves_the_one_before(saved, monkeypatch, code, call):
    def fail(*_args, **_kwargs):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, fail)
    for path in (saved, saved.with_name("000004")):
        with pytest.raises(CheckpointError, match=f"could not be saved: {os.strerror(code)}"):
            checkpoint.save(path, {"weight": torch.ones(2)}, {})
    monkeypatch.undo()
    assert checkpoint.load(saved).meta["step"] == 3
    assert names(saved.parent) == ["000003"]


def test_a_save_that_reads_back_different_is_not_called_saved(saved, monkeypatch):
    monkeypatch.setattr(checkpoint.safetensors.torch, "load", lambda data: 1 / 0)
    monkeypatch.setattr(
        checkpoint, "_read_tensors", lambda *_: (_ for _ in ()).throw(CheckpointError("rotten"))
    )
    with pytest.raises(CheckpointError, match="could not be saved: rotten"):
        checkpoint.save(saved.with_name("000004"), {}, {})
    assert names(saved.parent) == ["000003"]


def test_a_file_size_limit_is_an_error_and_nothing_is_left(saved):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        with pytest.raises(CheckpointError, match="could not be saved: File too large"):
            checkpoint.save(saved.with_name("000004"), {"big": torch.zeros(1 << 20)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names(saved.parent) == ["000003"]


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


@pytest.mark.parametrize("thing", [{"x": object()}, {"x": {1, 2}}])
def test_meta_that_is_no_json_is_refused(tmp_path, thing):
    with pytest.raises(CheckpointError, match="could not be saved: cannot be stored"):
        checkpoint.save(tmp_path / "a", {}, thing)
    assert names(tmp_path) == []


def test_weights_of_another_network_are_refused_by_name():
    module = torch.nn.Linear(3, 2)
    weights = {"weight": torch.zeros(2, 4), "other": torch.zeros(1)}
    with pytest.raises(
        CheckpointError, match=r"bias is missing; other is unknown; weight is \(2, 4\)"
    ):
        checkpoint.load_into(module, weights, "a/b")
    checkpoint.load_into(module, {"weight": torch.ones(2, 3), "bias": torch.ones(2)}, "a/b")
    assert torch.equal(module.bias, torch.ones(2))


def test_no_warning_where_all_is_well(saved):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert newest(saved.parent)[0] == saved
    assert durable.find_directory(saved) == saved
