"""Success by part: of each task of a multi-task env, and in each variant of the world.

Episodes of all seeds count together, with Wilson's interval.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from robo_rl.bench.results.cell_record import CellRecord, NumberRecord
from robo_rl.stats.intervals import wilson

PART = re.compile(r"(?:(?P<variant>[\w-]+)/)?success(?:/(?P<task>.+))?")
"""``success/lift``, ``held_out/success``, or ``held_out/success/lift``."""


def parts(records: Iterable[CellRecord]) -> list[dict[str, Any]]:
    """Return stage, variant, task, number of seeds, and success with its interval of each part.

    A row without variant and task is left out, since other tables have it.
    """
    counts: dict[tuple[str, str, str], tuple[int, int, int]] = {}
    for record in records:
        for key, wins, episodes in _counted(record):
            seeds, won, of = counts.get(key, (0, 0, 0))
            counts[key] = seeds + 1, won + wins, of + episodes
    return [
        {
            **dict(zip(("stage", "variant", "task"), key, strict=True)),
            "seeds": seeds,
            "success": won / of,
            "low": wilson(won, of).low,
            "high": wilson(won, of).high,
            "episodes": of,
        }
        for key, (seeds, won, of) in counts.items()
    ]


def _counted(record: CellRecord) -> Iterator[tuple[tuple[str, str, str], int, int]]:
    """Yield the key, the successes and the episodes of every part of a cell."""
    for stage, found in record.stages.items():
        for name, number in found.numbers.items():
            said = PART.fullmatch(name)
            if said is None or not isinstance(number, NumberRecord):
                continue
            task, variant = said["task"] or "", said["variant"] or ""
            if not (task or variant) or not number.n or number.value is None:
                continue
            yield (stage, variant, task), round(number.value * number.n), number.n
