"""Memory and disk that a run will need, compared with what there is, before the run starts."""

from __future__ import annotations

import shutil
from pathlib import Path

from robo_rl.core.errors import DeviceError

SHARE = 0.9
"""Share of the available memory that one part of a run may take."""

_DATA_SHARE = 0.5
"""Share of the available memory that one dataset may take, if it can be in files instead."""

_CGROUP = Path("/sys/fs/cgroup")


def available_bytes() -> int | None:
    """Return the memory that this process can still take, in bytes; None if it is unknown.

    The limit of a container (cgroup v2) counts where it is lower than the machine's.
    """
    found = [each for each in (_of_machine(), _of_container()) if each is not None]
    return min(found) if found else None


def fits_memory(needed: int) -> bool:
    """Return whether data of so many bytes should be kept in memory, beside all else."""
    there = available_bytes()
    return there is None or needed <= _DATA_SHARE * there


def demand_memory(needed: int, what: str, hint: str) -> None:
    """Check that memory suffices.

    Args:
        needed: Bytes.
        what: What needs them.
        hint: How to need less.

    Raises:
        DeviceError: It does not.
    """
    there = available_bytes()
    if there is not None and needed > SHARE * there:
        raise DeviceError(
            f"too little memory for {what}",
            expected=f"{needed / 1e9:.1f} GB",
            found=f"{there / 1e9:.1f} GB available",
            hint=hint,
        )


def demand_disk(needed: int, folder: Path, what: str, hint: str) -> None:
    """Check that a disk has room.

    Args:
        needed: Bytes, with those of files that are in ``folder`` already.
        folder: Folder of the files; it need not exist.
        what: What needs them.
        hint: How to need less.

    Raises:
        DeviceError: It has not.
    """
    held = size_on_disk(folder)
    parent = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    free = shutil.disk_usage(parent).free
    if needed - held > SHARE * free:
        raise DeviceError(
            f"too little disk space for {what}",
            where=folder,
            expected=f"{needed / 1e9:.1f} GB",
            found=f"{free / 1e9:.1f} GB free",
            hint=hint,
        )


def size_on_disk(folder: Path) -> int:
    """Return the bytes that the files of a folder take; 0 without the folder."""
    return sum(map(_size_of_file, folder.rglob("*")))


def _size_of_file(path: Path) -> int:
    """Return the bytes that a path takes; 0 if it is gone."""
    try:
        return path.stat().st_blocks * 512
    except FileNotFoundError:
        return 0


def _of_machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:  # no Linux
        return None
    found = (int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    return next(found, None)


def _of_container() -> int | None:
    try:
        limit, used = (int((_CGROUP / f"memory.{name}").read_text()) for name in ("max", "current"))
        stat = dict(line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())
        return limit - used + int(stat.get("inactive_file", 0))  # the cache of files gives way
    except (OSError, ValueError):  # no such limit: "max"
        return None
