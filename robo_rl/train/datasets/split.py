"""Splits episodes into a training part and a held-out evaluation part."""

from __future__ import annotations

import math

import torch

from robo_rl.core.errors import DataError
from robo_rl.core.seeding import make_generator


def split(number: int, share: float, seed: int) -> tuple[set[int], set[int]]:
    """Return the indices of training and held-out episodes; both are all without a share.

    Held-out episodes are evenly spaced from a random offset. So appended episodes do not move the
    others to the other part.

    Raises:
        DataError: There are too few episodes for both parts.
    """
    if not share:
        return set(range(number)), set(range(number))
    begin = float(torch.rand((), generator=make_generator("judge share", seed)))
    before = [math.floor(begin + share * place) for place in range(number + 1)]
    apart = {place for place in range(number) if before[place + 1] > before[place]}
    rest = set(range(number)) - apart
    if not (rest and apart):
        raise DataError(
            "too few episodes to learn from some and to judge by others",
            expected=f"more than {number}, or another offline.holdout_fraction",
            found=f"{len(rest)} and {len(apart)} with a share of {share:g}",
            hint="offline.holdout_fraction: 0 judges by what was learnt from",
        )
    return rest, apart
