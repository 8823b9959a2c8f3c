"""Where policies, critics and buffers are: the processor, or a GPU that torch sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robo_rl.core.errors import DeviceError

if TYPE_CHECKING:
    import torch

PATTERN = r"^(auto|cpu|cuda(:\d+)?)$"
"""``auto`` is a GPU where there is one; ``cuda`` is the process' own."""


def find_device(name: str) -> torch.device:
    """The device of a name that ``PATTERN`` matches.

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
            f"device '{name}' is not there",
            expected=f"a CUDA device {number}",
            found=f"{seen} of them" if seen else f"torch {torch.__version__}, which sees none",
            hint="device=cpu computes the same",
        )
    return torch.device("cuda", number)
