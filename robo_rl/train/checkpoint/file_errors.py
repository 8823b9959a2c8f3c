"""Errors of files in a run, as errors of one line that say what to do."""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from robo_rl.config.plugin_fault import fault_of
from robo_rl.config.registry import plugin_packages
from robo_rl.core.errors import CheckpointError, RoboRlError

_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
_DENIED = (errno.EACCES, errno.EPERM)


@contextmanager
def explain_file_errors(directory: Path) -> Generator[None]:
    """Convert unexplained errors of files to a one-line error; plug-ins explain their own."""
    try:
        yield
    except OSError as error:
        where, why = error.filename or directory, error.strerror or error
        if error.errno not in _DISK and fault_of(error, plugin_packages()) is not None:
            raise
        if error.errno not in (*_DISK, *_DENIED):
            hint = f"{_remedy(error, directory)}; --debug shows the traceback"
            raise RoboRlError(f"cannot be used: {why}", where=where, hint=hint) from error
        hint = "free space or check the permissions; the same command resumes"
        raise CheckpointError(f"could not be written: {why}", where=where, hint=hint) from error


def _remedy(error: OSError, directory: Path) -> str:
    """Return what to do about an error of a file, for a run in ``directory``."""
    if error.errno == errno.ENAMETOOLONG:
        return "give the run a shorter name=…"
    if not isinstance(error.filename, str):
        return "the same command resumes"
    path, run = Path(error.filename).absolute(), directory.absolute()
    if path == run or path in run.parents:
        return "name another --out"
    stage = next((each for each in (path, *path.parents) if each.parent == run), None)
    if error.errno == errno.ENOENT and stage is not None and stage.is_dir():
        return f"put it back, or remove {stage} to run the stage again"
    return "the same command resumes"
