"""Numbered checkpoints of a run, ``ckpt/000123``; training resumes from the newest whole one."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Generator
from pathlib import Path
from typing import Any

import torch

from robo_rl.config.plugin_fault import is_raised_in
from robo_rl.config.registry import plugin_packages
from robo_rl.core.atomic_files import discard, final_name, remove_temporary
from robo_rl.core.errors import CheckpointError, Notice, RoboRlError
from robo_rl.core.stateful import KEPT_CHECKPOINTS
from robo_rl.train.checkpoint.files import Checkpoint, load, save
from robo_rl.train.checkpoint.pytree import flatten, unflatten

_HOST = "cpu"
_DEVICE_ERROR = "CUDA error"
"""Text of torch's errors of a GPU, which have a class of their own in its later versions alone."""
_NUMBERED = re.compile(r"\d{6,}")


def latest(root: Path) -> tuple[Path, Checkpoint] | None:
    """Return the newest readable checkpoint in ``root``; None without checkpoints.

    A damaged checkpoint is skipped with a warning.

    Raises:
        CheckpointError: There are checkpoints, and none can be read.
    """
    errors: list[CheckpointError] = []
    for path in reversed(_numbered(Path(root))):
        try:
            found = load(path)
        except CheckpointError as error:
            errors.append(error)
            continue
        for error in errors:
            warnings.warn(f"{error}; going back to {path}", Notice, stacklevel=2)
        return path, found
    if errors:
        raise CheckpointError(
            "none of the checkpoints can be read",
            where=root,
            found="; ".join(map(str, errors)),
            hint="move them away to start from the beginning",
        )
    return None


class CheckpointSeries:
    """Numbered checkpoints of a training run, of which the last few are kept.

    Args:
        root: Directory of the checkpoints, ``runs/…/ckpt``; only one process may write there.
        keep: Number of kept checkpoints, at least 2, so that one remains if the newest is damaged.
        device: Device type of the run. Its random streams cannot continue on another type.
    """

    def __init__(self, root: Path, keep: int = KEPT_CHECKPOINTS, device: str = _HOST) -> None:
        self.root, self.keep, self.device = Path(root), max(keep, 2), device

    def save(self, step: int, state: Any) -> Path:
        """Save nested state (see ``pytree.flatten``) as number ``step``.

        Raises:
            CheckpointError: It cannot be written; the earlier checkpoints are unchanged.
        """
        if self.root.is_dir():
            remove_temporary(self.root)
        tensors, meta = flatten(state)
        path = save(self.root / f"{step:06d}", tensors, {"state": meta, "device": self.device})
        for old in _numbered(self.root)[: -self.keep]:
            with contextlib.suppress(OSError):  # a checkpoint that remains does no harm
                discard(old)
        return path

    @contextlib.contextmanager
    def loading(self, *, runs_env: bool = False) -> Generator[None]:
        """Convert the errors of a state that the code inside the context cannot load.

        Errors of a device, and those that the code of a plugin raises itself, stay what they are:
        the line that raised is then known, and the checkpoint may be whole.

        Args:
            runs_env: Whether the code runs an env too. A RuntimeError or ValueError may then be
                that of a simulator, and stays what it is.

        Raises:
            CheckpointError: Other code made the checkpoint.
        """
        try:
            yield
        except (RoboRlError, torch.OutOfMemoryError):
            raise
        except (RuntimeError, KeyError, ValueError, TypeError, AttributeError) as error:
            if runs_env and isinstance(error, (RuntimeError, ValueError)):
                raise
            if _DEVICE_ERROR in str(error) or is_raised_in(error, plugin_packages()):
                raise
            raise CheckpointError(
                "does not fit the code of today",
                where=self.root,
                found=" ".join(f"{type(error).__name__}: {error}".split())[:300],
                hint="robo-rl or a plugin was changed since: go back, give the run another name=…,"
                " or remove the folder to begin the stage again",
            ) from error

    def load_latest(self) -> Any:
        """Return the state of the newest readable checkpoint; None without checkpoints.

        Raises:
            CheckpointError: There are checkpoints, and none can be read, or the newest was made on
                another type of device.
        """
        found = latest(self.root)
        if found is None:
            return None
        path, (tensors, meta) = found
        if (device := meta.get("device", _HOST)) != self.device:
            raise CheckpointError(
                "was made on another device, whose random numbers only that one has",
                where=path,
                expected=self.device,
                found=device,
                hint=f"go on with device={device}, or give the run another name=…",
            )
        return unflatten(tensors, meta.get("state"))


def _numbered(root: Path) -> list[Path]:
    """Return the numbered checkpoints in ``root``, oldest first."""
    if not root.is_dir():
        return []
    names = {final_name(path) for path in root.iterdir() if path.is_dir()}
    return sorted((root / name for name in names if _NUMBERED.fullmatch(name)), key=_number)


def _number(path: Path) -> int:
    return int(path.name)
