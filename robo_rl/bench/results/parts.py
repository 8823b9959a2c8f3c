"""Success by part: of each task of a multi-task env, and in each variant of the world.

A part is the mean over seeds with the interval of all other tables: see ``rate_interval``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from robo_rl.bench.results.cell_record import CellRecord, NumberRecord
from robo_rl.bench.results.scores import start_states
from robo_rl.stats.across_runs import rate_interval

PART = re.compile(r"(?:(?P<variant>[\w-]+)/)?success(?:/(?P<task>.+))?")
"""``success/lift``, ``held_out/success``, or ``held_out/success/lift``."""


def parts(records: Iterable[CellRecord]) -> list[dict[str, Any]]:
    """Return stage, variant, task, number of seeds, and success with its interval of each part.

    A row without variant and task is left out, since other tables have it. One seed has no
    interval: its ends are None.
    """
    found: dict[tuple[str, str, str], list[_Rate]] = {}
    for record in records:
        for key, rate in _rates(record):
            found.setdefault(key, []).append(rate)
    return [
        {**dict(zip(("stage", "variant", "task"), key, strict=True)), **_summarise(rates)}
        for key, rates in found.items()
    ]


class _Rate(NamedTuple):
    """Success of a seed: the rate, its episodes, and the key of their starts, equal if shared."""

    value: float
    episodes: int
    starts: object


def _summarise(rates: Sequence[_Rate]) -> dict[str, Any]:
    """Return the numbers of a part from the rates of its seeds."""
    values, distinct = [rate.value for rate in rates], {r.starts: r.episodes for r in rates}
    alone = len(rates) < 2
    low, high = (None, None) if alone else rate_interval(values, sum(distinct.values()))
    return {
        "seeds": len(rates),
        "success": sum(values) / len(rates),
        "low": low,
        "high": high,
        "episodes": sum(rate.episodes for rate in rates),
    }


def _rates(record: CellRecord) -> Iterator[tuple[tuple[str, str, str], _Rate]]:
    """Yield the key and the success of every part of a cell."""
    for stage, found in record.stages.items():
        for name, number in found.numbers.items():
            said = PART.fullmatch(name)
            if said is None or not isinstance(number, NumberRecord):
                continue
            task, variant = said["task"] or "", said["variant"] or ""
            if not (task or variant) or not number.n or number.value is None:
                continue
            rate = _Rate(number.value, number.n, start_states(record, number))
            yield (stage, variant, task), rate
