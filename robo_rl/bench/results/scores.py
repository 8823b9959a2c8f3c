"""What cells are worth: their scores, and these by task and seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from robo_rl.bench.results.cell_record import CellRecord, NumberRecord
from robo_rl.bench.suite.suite import ReportConfig

if TYPE_CHECKING:
    from numpy.typing import NDArray


def stage_number(kept: CellRecord, stage: str | None, name: str) -> float | None:
    """A number of one of a cell's stages; None if it has none of that name."""
    found = kept.stages[stage].numbers.get(name) if stage in kept.stages else None
    value = found.value if isinstance(found, NumberRecord) else found
    return float(value) if isinstance(value, (int, float)) else None


def score(kept: CellRecord, report: ReportConfig) -> float | None:
    """That of the policy that counts."""
    after = stage_number(kept, report.stage, report.measure)
    return (
        None if after is None else report.score_measure.score_of(after, score_before(kept, report))
    )


def score_before(kept: CellRecord, report: ReportConfig) -> float | None:
    """What the policy was worth that the stage that counts began with."""
    return stage_number(kept, report.stage, f"{report.measure}_before")


def episodes(kept: Iterable[CellRecord], report: ReportConfig) -> int:
    """In how many episodes these cells were judged together; 0 where one does not say."""
    numbers = [each.stages[report.stage].numbers.get(report.measure) for each in kept]
    known = [found.n or 0 if isinstance(found, NumberRecord) else 0 for found in numbers]
    return sum(known) if all(known) else 0


def stopped_early(kept: CellRecord, report: ReportConfig) -> bool:
    """Whether training ended before its budget, because what it had learnt was enough."""
    settings = kept.config.get("stages", {}).get(report.stage, {})
    for budget in ("updates", "env_steps"):
        made, most = stage_number(kept, report.stage, budget), settings.get(budget)
        if made is None or (most is not None and made >= most):
            return False
    return True


def mean(values: Iterable[float | None]) -> float | None:
    """None where one is not known, so that means of several things are over the same cells."""
    found = list(values)
    known = [value for value in found if value is not None]
    return sum(known) / len(known) if known and len(known) == len(found) else None


class Scores:
    """One method's scores.

    Args:
        tasks: Of the suite.
        kept: The method's cells.
        report: What is measured.
    """

    def __init__(
        self, tasks: Iterable[str], kept: Iterable[CellRecord], report: ReportConfig
    ) -> None:
        self.by_task: dict[str, dict[int, float]] = {task: {} for task in tasks}
        for each in kept:
            value = score(each, report)
            if value is not None:
                self.by_task[each.task][each.seed] = value

    @property
    def tasks(self) -> int:
        """How many tasks there are scores of."""
        return sum(bool(seeds) for seeds in self.by_task.values())

    @property
    def seeds(self) -> list[int]:
        """Those that every task has, in the order of the first."""
        return common_seeds([self])

    def table(self, seeds: Sequence[int] | None = None) -> NDArray[Any]:
        """(seeds, tasks), of the seeds that every task has or of those given."""
        chosen = self.seeds if seeds is None else seeds
        rows = [[scores[seed] for scores in self.by_task.values()] for seed in chosen]
        return np.array(rows, dtype=np.float64).reshape(len(chosen), len(self.by_task))


def common_seeds(several: Sequence[Scores]) -> list[int]:
    """Seeds that all of these have in every task, in the order of the first."""
    rows: list[Mapping[int, float]] = [row for each in several for row in each.by_task.values()]
    return [seed for seed in rows[0] if all(seed in row for row in rows)]
