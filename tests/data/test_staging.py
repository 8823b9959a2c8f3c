"""What is built beside its place has the name when it is whole, and one process builds it."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from robo_rl.core.errors import DataError
from robo_rl.data.staging import built_beside

KILLED = """\
import os, signal, sys
from pathlib import Path
from robo_rl.data.staging import built_beside

with built_beside(Path(sys.argv[1])) as path:
    path.mkdir()
    (path / "half").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_writer_leaves_nothing_under_the_name_and_nothing_in_the_way(tmp_path: Path):
    out = tmp_path / "data.zarr"
    ended = subprocess.run([sys.executable, "-c", KILLED, str(out)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert not out.exists()
    with built_beside(out) as path:
        path.mkdir()
        (path / "whole").write_text("whole")
    assert [each.name for each in out.iterdir()] == ["whole"]
    assert os.listdir(tmp_path) == ["data.zarr"]


def test_a_second_writer_is_refused_and_the_first_keeps_its_work(tmp_path: Path):
    out = tmp_path / "data.hdf5"
    with built_beside(out) as path:
        path.write_text("first")
        with pytest.raises(DataError, match="another process writes it"), built_beside(out):
            pytest.fail("both write")
        assert path.read_text() == "first"
    assert out.read_text() == "first"


def test_a_folder_that_is_not_there_is_refused_and_not_made(tmp_path: Path):
    with (
        pytest.raises(DataError, match="dta: the folder does not exist; make it first"),
        built_beside(tmp_path / "dta" / "data.zarr"),
    ):
        pytest.fail("goes on")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["lock", "built"])
def test_any_name_is_that_of_an_output(tmp_path: Path, name: str):
    with built_beside(tmp_path / name) as path:
        path.mkdir()  # fails where something is there already
    assert (tmp_path / name).is_dir()


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_took_the_name_meanwhile_is_kept(tmp_path: Path, kind: str):
    out = tmp_path / "data"

    def build() -> None:
        with built_beside(out) as path:
            path.write_text("new")
            out.write_text("old") if kind == "file" else out.mkdir()

    with pytest.raises(DataError, match="is there already"):
        build()
    assert out.read_text() == "old" if kind == "file" else out.is_dir()
    assert os.listdir(tmp_path) == ["data"]


def test_a_disk_without_room_is_one_typed_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def mkdir(path: Path, *_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    def build() -> None:
        with built_beside(tmp_path / "data"):
            pytest.fail("nothing can be built")

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with pytest.raises(DataError, match=r"data: cannot be written: No space left"):
        build()
    assert not os.listdir(tmp_path)


def test_an_error_leaves_nothing(tmp_path: Path):
    def build() -> None:
        with built_beside(tmp_path / "data") as path:
            path.mkdir()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        build()
    assert not os.listdir(tmp_path)
