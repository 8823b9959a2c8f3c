"""The device of policies, critics and buffers: the CPU, or a GPU that torch sees."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from robo_rl.core.errors import DeviceError

if TYPE_CHECKING:
    import torch

PATTERN = r"^(auto|cpu|cuda(:\d+)?)$"
"""``auto`` is a GPU if one exists; ``cuda`` is the GPU of the process."""


def check_device_name(name: str) -> str:
    """Return a name that ``PATTERN`` matches.

    Raises:
        ValueError: The pattern does not match it.
    """
    if not re.fullmatch(PATTERN, name):
        raise ValueError(f"expected auto, cpu, cuda or cuda:N, found '{name}'")
    return name


def find_device(name: str) -> torch.device:
    """Return the device of a name that ``PATTERN`` matches.

    Raises:
        DeviceError: There is no such device.
    """
    import torch

    seen = torch.cuda.device_count()
    if name == "cpu" or (name == "auto" and not seen):
        return torch.device("cpu")
    index = name.partition(":")[2]
    number = int(index) if index else torch.cuda.current_device() if seen else 0
    if number >= seen:
        raise DeviceError(
            f"device '{name}' does not exist",
            expected=f"a CUDA device {number}",
            found=f"{seen} of them" if seen else f"torch {torch.__version__}, which sees none",
            hint="set device=cpu",
        )
    return torch.device("cuda", number)
