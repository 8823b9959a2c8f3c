"""Formats numbers of a summary as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Numbers = Mapping[str, Any]
NOTHING = "–"


def percent(share: float | None) -> str:
    """Format a fraction in per cent."""
    return NOTHING if share is None else f"{100 * share:.1f} %"


def format_ratio(ratio: float | None) -> str:
    """Format a ratio."""
    return NOTHING if ratio is None else f"{ratio:.2f}×"


def format_number(amount: float | None) -> str:
    """Format with three digits, with k, M and G for thousands, millions and billions."""
    if amount is None:
        return NOTHING
    rounded = float(f"{amount:.3g}")
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(rounded) >= size:
            return f"{rounded / size:.3g}{unit}"
    return f"{rounded:.3g}"


def with_interval(amount: Numbers) -> str:
    """Format a number, with its interval if it has one."""
    low, value, high = (amount[name] for name in ("low", "value", "high"))
    return f"{value:.2f}" if low is None else f"{value:.2f} [{low:.2f}, {high:.2f}]"


def format_time(time: Numbers, show: Any) -> str:
    """Format a median; ``>`` or ``≤`` marks a bound, (reached/of) an incomplete count."""
    if time["median"] is None:
        return NOTHING
    bound = "> " if time["at_least"] else "≤ " if time["at_most"] else ""
    text = f"{bound}{show(time['median'])}"
    return text if time["reached"] == time["of"] else f"{text} ({time['reached']}/{time['of']})"
