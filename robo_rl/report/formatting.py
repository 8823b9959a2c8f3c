"""Formats the numbers of a stage's report.

A number is a plain number, or a mapping of value, low, high, n, unit and protocol.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeGuard

_GROUP = "\u202f"  # narrow no-break space


def part_of(number: Any, key: str) -> Any:
    """Return a field of a number that is a mapping; None if absent."""
    return number.get(key) if isinstance(number, Mapping) else None


def value_of(number: Any) -> float | None:
    """Return the finite value of a number; None for text and non-finite values."""
    value = number.get("value") if isinstance(number, Mapping) else number
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if math.isfinite(value) else None


def is_share(number: Any) -> TypeGuard[Mapping[str, Any]]:
    """Return whether the number is a fraction of n, which is shown in per cent."""
    value = value_of(number)
    known = part_of(number, "unit") == "1" and part_of(number, "n") is not None
    return known and value is not None and 0.0 <= value <= 1.0


def interval_of(number: Any) -> tuple[float, float] | None:
    """Return the ends (low, high) of the interval; None if absent."""
    low, high = value_of(part_of(number, "low")), value_of(part_of(number, "high"))
    return None if low is None or high is None else (low, high)


def format_number(value: float, number: Any) -> str:
    """Format a value of this number, or an end of its interval, with its unit."""
    if is_share(number):
        return f"{value:.1%}"
    unit = part_of(number, "unit") or "1"
    return format_plain(value) if unit == "1" else f"{format_plain(value)} {unit}"


def format_plain(value: Any) -> str:
    """Format with four significant digits; integers in full with digit groups."""
    if isinstance(value, int):
        return f"{value:,}".replace(",", _GROUP)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def format_duration(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def format_short(value: float) -> str:
    """Format a number in few characters: ``1.2M``, ``300k``, ``0.05``, ``2e-05``."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{suffix}"
    return f"{value:.4g}"
