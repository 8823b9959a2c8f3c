import errno
import os

import pytest

from robo_rl.core import atomic_files as durable


def no_space(*_args, **_kwargs):
    raise OSError(errno.ENOSPC, "No space left on device")


def names(path):
    return sorted(entry.name for entry in path.iterdir())


def test_a_file_is_replaced_as_a_whole(tmp_path):
    file = tmp_path / "a"
    durable.write_file(file, b"one")
    durable.write_file(file, b"two")
    assert file.read_bytes() == b"two"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, call):
    file = tmp_path / "a"
    durable.write_file(file, b"old")
    monkeypatch.setattr(os, call, no_space)
    with pytest.raises(OSError, match="No space"):
        durable.write_file(file, b"new")
    assert file.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_a_file_that_reads_back_different_is_an_error(tmp_path, monkeypatch):
    file = tmp_path / "a"
    durable.write_file(file, b"old")
    monkeypatch.setattr(type(tmp_path), "read_bytes", lambda self: b"rotten")
    with pytest.raises(OSError, match="reads back different"):
        durable.write_file(file, b"new")
    monkeypatch.undo()
    assert file.read_bytes() == b"old"


def test_a_failed_append_is_cut_off_again(tmp_path, monkeypatch):
    file = tmp_path / "log"
    file.write_bytes(b"one\n")
    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space"):
        durable.append_file(file, b"two\n")
    monkeypatch.undo()
    assert file.read_bytes() == b"one\n"
    durable.append_file(file, b"two\n")
    assert file.read_bytes() == b"one\ntwo\n"


def test_a_link_is_neither_appended_to_nor_truncated(tmp_path):
    victim, link = tmp_path / "victim", tmp_path / "link"
    victim.write_bytes(b"content")
    link.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        durable.append_file(link, b"more")
    with pytest.raises(OSError, match="symbolic links"):
        durable.truncate_file(link, 1)
    assert victim.read_bytes() == b"content"
    durable.truncate_file(victim, 3)
    assert victim.read_bytes() == b"con"


def test_everything_is_flushed_before_it_takes_its_name_and_the_name_after(tmp_path, monkeypatch):
    events = []
    fsync, rename = os.fsync, os.rename
    paths = lambda fd: os.readlink(f"/proc/self/fd/{fd}")  # noqa: E731
    monkeypatch.setattr(os, "fsync", lambda fd: (events.append(paths(fd)), fsync(fd)))
    monkeypatch.setattr(os, "rename", lambda a, b: (events.append(f"> {b}"), rename(a, b)))
    final = tmp_path / "new" / "final"
    with durable.staged_directory(final) as stage:
        (stage / "inner").mkdir()
        (stage / "inner" / "file").write_bytes(b"x")
    renamed = events.index(f"> {final}")
    flushed = {event.replace(str(stage), "") for event in events[:renamed]}
    assert {"/inner/file", "/inner", "", str(tmp_path)} <= flushed
    assert str(final.parent) in events[renamed:]


def test_a_directory_is_replaced_as_a_whole(tmp_path):
    final = tmp_path / "final"
    for text in ("one", "two"):
        with durable.staged_directory(final) as stage:
            (stage / "file").write_text(text)
    assert (final / "file").read_text() == "two"
    assert names(tmp_path) == ["final"]


@pytest.mark.parametrize("there", [False, True])
def test_an_exception_leaves_what_was_there(tmp_path, there):
    final = tmp_path / "final"
    if there:
        final.mkdir()
        (final / "file").write_text("old")

    def fill():
        with durable.staged_directory(final) as stage:
            (stage / "file").write_text("new")
            raise KeyError

    with pytest.raises(KeyError):
        fill()
    assert names(tmp_path) == ["final"] * there
    assert not there or (final / "file").read_text() == "old"


def test_a_failed_rename_puts_the_old_directory_back(tmp_path, monkeypatch):
    final = tmp_path / "final"
    final.mkdir()
    (final / "file").write_text("old")
    rename = os.rename
    fail = lambda a, b: no_space() if ".tmp-" in str(a) else rename(a, b)  # noqa: E731
    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(OSError, match="No space"), durable.staged_directory(final):
        pass
    assert (final / "file").read_text() == "old"
    assert names(tmp_path) == ["final"]


def test_a_replacement_killed_between_its_renames_is_found_and_then_undone(tmp_path):
    final, old = tmp_path / "final", tmp_path / ".old-final"
    old.mkdir()
    (old / "file").write_text("old")
    assert durable.find_directory(final) == old
    assert durable.final_name(old) == "final"
    with pytest.raises(KeyError), durable.staged_directory(final):
        raise KeyError
    assert durable.find_directory(final) == final
    assert (final / "file").read_text() == "old"


def test_leftovers_of_killed_writers_are_removed_and_nothing_else(tmp_path):
    (tmp_path / ".tmp-a-1").mkdir()
    (tmp_path / ".tmp-a-1" / "file").write_text("x")
    (tmp_path / ".tmp-b-2").write_text("x")
    (tmp_path / "kept").write_text("x")
    durable.remove_temporary(tmp_path)
    assert names(tmp_path) == ["kept"]
