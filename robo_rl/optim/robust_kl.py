"""The distance of an update: a mean over units' KLs that single units cannot dominate.

Shapes: R units of a minibatch, over all processes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from torch import Tensor


class RobustKl(NamedTuple):
    """Summary of the KLs of units, in nats.

    Args:
        robust: Winsorised mean, which controls the step size.
        mean: Plain mean.
        largest: Largest KL of a unit.
    """

    robust: float
    mean: float
    largest: float

    @classmethod
    def of(cls, kl: Tensor, trim: float) -> RobustKl:
        """Summarise the KLs (R,) on the CPU; see ``winsorized_mean`` for ``trim``."""
        robust = winsorized_mean(kl, trim)
        return cls(float(robust), float(kl.mean()), float(kl.max()))


def winsorized_mean(rows: Tensor, trim: float) -> Tensor:
    """Mean of rows (R,), with the largest rows lowered to the largest of the other rows.

    ⌈trim·R⌉ rows are lowered, so with ``trim`` above 0 the mean has a bound if one row grows
    without bound. The mean is NaN if any row is NaN. Source: Tukey 1962, one-sided Winsorization.

    Args:
        rows: At least one row.
        trim: Share of lowered rows; 0 gives the plain mean.
    """
    lowered = min(math.ceil(trim * len(rows)), len(rows) - 1)
    if not lowered:
        return rows.mean()
    return rows.clamp(max=rows.sort().values[-1 - lowered]).mean()
