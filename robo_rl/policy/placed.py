"""Small tables of the host where a computation needs them, brought over once."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

_COPIES = WeakTensorKeyDictionary()
"""Table → {(device, type): copy}; a copy goes with its table."""


def placed(table: Tensor, like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """A table as another tensor has its numbers; it must never be written to.

    On the table's own device this is ``Tensor.to``. Elsewhere the copy is kept, because every copy
    from the host would wait for the device.

    Args:
        table: Of any shape.
        like: Says where, and of which type.
        dtype: Of the copy, where not that of ``like``.
    """
    dtype = like.dtype if dtype is None else dtype
    if table.device == like.device:
        return table.to(dtype)
    copies = cast(dict[tuple[torch.device, torch.dtype], Tensor], _COPIES.setdefault(table, {}))
    key = like.device, dtype
    if key not in copies:
        copies[key] = table.to(like.device, dtype)
    return copies[key]
