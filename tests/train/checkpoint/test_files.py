import errno
import os
import pickle
import resource
import shutil
import struct
from pathlib import Path

import pytest
import torch
from small_checkpoints import META, flip, make_tensors, names

from robo_rl.core.checksummed_json import seal, unseal
from robo_rl.core.errors import CheckpointError
from robo_rl.train.checkpoint import files as checkpoint
from robo_rl.train.checkpoint import series as checkpoint_series


@pytest.fixture
def saved(tmp_path):
    return checkpoint.save(tmp_path / "ckpt" / "000003", make_tensors(), META)


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


def truncate(path):
    file = path / "tensors.safetensors"
    file.write_bytes(file.read_bytes()[:-5])


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


def test_a_replacement_killed_half_way_still_loads(saved):
    saved.rename(saved.with_name(".old-000003"))
    assert checkpoint.load(saved).meta["step"] == 3
    found = checkpoint_series.latest(saved.parent)
    assert found is not None
    assert found[1].meta["step"] == 3


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
    """A disk that flips the last bit of the tensors."""
    write = Path.write_bytes

    def rot(path: Path, data: bytes) -> int:
        is_weights = path.name == "tensors.safetensors"
        return write(path, data[:-1] + bytes([data[-1] ^ 1]) if is_weights else data)

    monkeypatch.setattr(Path, "write_bytes", rot)
    with pytest.raises(CheckpointError, match=r"could not be saved: .*damaged"):
        checkpoint.save(saved.with_name("000004"), {"weight": torch.ones(2)}, {})
    monkeypatch.undo()
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


@pytest.mark.parametrize("thing", [{"x": object()}, {"x": {1, 2}}])
def test_meta_that_is_no_json_is_refused(tmp_path, thing):
    with pytest.raises(CheckpointError, match="could not be saved: cannot be stored"):
        checkpoint.save(tmp_path / "a", {}, thing)
    assert names(tmp_path) == []
