"""Numbers of a computation, brought to the host together: each read alone would wait for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor


def numbers(scalars: Sequence[Tensor]) -> list[float]:
    """The numbers of scalars of one device, in one transfer."""
    if not scalars:
        return []
    return torch.stack([each.detach().double() for each in scalars]).tolist()


def read(scalars: Mapping[str, Tensor]) -> dict[str, float]:
    """Likewise, by name."""
    return dict(zip(scalars, numbers(list(scalars.values())), strict=True))
