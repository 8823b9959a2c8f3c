"""Scalars on a GPU, read together, because each read waits for the GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor


def numbers(scalars: Sequence[Tensor]) -> list[float]:
    """Return the numbers of scalars of one device, in one transfer."""
    if not scalars:
        return []
    return torch.stack([each.detach().double() for each in scalars]).tolist()


def read(scalars: Mapping[str, Tensor]) -> dict[str, float]:
    """Return the numbers of named scalars of one device, in one transfer."""
    return dict(zip(scalars, numbers(list(scalars.values())), strict=True))
