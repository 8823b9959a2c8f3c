"""Selects Warp's device and silences its output."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import torch
import warp as wp

from robo_rl.core.errors import DeviceError

_HINT = "device=cpu computes the same, slowly"


def find_device(name: str) -> torch.device:
    """Return the device ``cpu``, ``cuda`` or ``cuda:1``; ``auto`` is a GPU if there is one.

    Raises:
        DeviceError: There is no such device, or Warp and torch do not both see it.
    """
    with quiet_warp():
        wp.init()
    seen = min(wp.get_cuda_device_count(), torch.cuda.device_count())
    if name == "cpu" or (name == "auto" and not seen):
        return torch.device("cpu")
    kind, _, index = ("cuda" if name == "auto" else name).partition(":")
    if kind != "cuda" or not (index or "0").isdigit():
        expected = "'auto', 'cpu', 'cuda' or 'cuda:N'"
        raise DeviceError("unknown device for mujoco_warp", expected=expected, found=repr(name))
    number = int(index) if index else torch.cuda.current_device() if seen else 0
    if number >= seen:
        raise DeviceError(
            f"mujoco_warp was asked to compute on '{name}'",
            expected=f"a CUDA device {number}",
            found=_found(seen),
            hint=_HINT,
        )
    return torch.device("cuda", number)


@contextmanager
def quiet_warp() -> Generator[None]:
    """Suppress Warp's banner and its line per kernel module on standard output."""
    level = wp.config.log_level
    wp.config.log_level = max(level, wp.LOG_WARNING)
    try:
        yield
    finally:
        wp.config.log_level = level


def _found(seen: int) -> str:
    if seen:
        return f"{seen} of them"
    if torch.version.cuda is None:
        return f"torch {torch.__version__}, which was built without CUDA"
    return "none that Warp and torch both see (is the NVIDIA driver there?)"
