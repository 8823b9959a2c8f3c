"""Constants on the device of what they meet, without a transfer in every control step."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class DeviceCopies:
    """A constant tensor with one copy on each device that asks for it.

    Args:
        value: The constant, on the CPU.
    """

    def __init__(self, value: Tensor) -> None:
        self._copies = {value.device: value}

    def on(self, device: torch.device) -> Tensor:
        """Return the constant on a device; the first call copies it there."""
        if device not in self._copies:
            self._copies[device] = next(iter(self._copies.values())).to(device)
        return self._copies[device]


def columns(chosen: list[bool]) -> DeviceCopies:
    """Return the indices (M,) of the chosen columns; an index of bools would make a GPU wait."""
    import torch

    return DeviceCopies(torch.tensor([i for i, each in enumerate(chosen) if each]))
