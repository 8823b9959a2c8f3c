"""Options whose default is not what runs did before the options existed.

A record without an option agrees with a suite that does not set it, so that a new option makes no
record stale. Where the default differs from what runs did before, the record's runs differ from
those of today, and reports say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

FORMER: dict[str, Any] = {
    "record": "executed",  # stages.collect
    "train_times": "uniform",  # policy
    "loss_weight": "prediction",  # policy
    "kl_trim": 0.0,  # stages.online.algo
    "lr_probe": False,  # stages.online.algo
    "difference_error": 0.0,  # stages.offline
}
"""Option → the value that describes runs before it."""


def former_defaults(kept: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that a record lacks and whose defaults describe other runs than its own.

    Args:
        kept: Settings of a record.
        now: All current settings of its cell.

    Returns:
        Option → the value of the record's runs.
    """
    return dict(_found(kept, now))


def _found(kept: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in now.items():
        if name not in kept:
            if name in FORMER and value != FORMER[name]:
                yield name, FORMER[name]
        elif isinstance(value, dict) and isinstance(kept[name], dict):
            yield from _found(kept[name], cast("dict[str, Any]", value))
