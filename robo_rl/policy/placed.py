"""Copies of small tables on the CPU on the device that computes with them."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

_COPIES = WeakTensorKeyDictionary()
"""Table → {(device, type): copy}; a copy goes with its table."""


def placed(table: Tensor, like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return a table on the device of another tensor, in its type; never write to the result.

    On the table's own device this is ``Tensor.to``. On another device the copy is kept, because
    every copy from the CPU waits for the device.

    Args:
        table: A table of any shape.
        like: Tensor with the device and type of the result.
        dtype: Type of the result; that of ``like`` by default.
    """
    dtype = like.dtype if dtype is None else dtype
    if table.device == like.device:
        return table.to(dtype)
    copies = cast(dict[tuple[torch.device, torch.dtype], Tensor], _COPIES.setdefault(table, {}))
    key = like.device, dtype
    if key not in copies:
        copies[key] = table.to(like.device, dtype)
    return copies[key]
