"""Measurements in the format of reports: value, 95 % interval, number of samples, unit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from robo_rl.stats.across_runs import student_interval
from robo_rl.stats.intervals import wilson


def reported_rate(good: int, total: int) -> dict[str, Any]:
    """Return a fraction with Wilson's interval."""
    low, high = wilson(good, total)
    return {"value": good / total, "low": low, "high": high, "n": total, "unit": "1"}


def reported_mean(values: ArrayLike, unit: str) -> dict[str, Any]:
    """Return the mean of values (N,) with Student's interval; one value has no interval."""
    table = np.asarray(values, dtype=np.float64)
    low, high = (None, None) if len(table) < 2 else student_interval(table)
    return {"value": float(table.mean()), "low": low, "high": high, "n": len(table), "unit": unit}
