"""Scores of cells, by task and seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from robo_rl.bench.results.cell_record import CellRecord, NumberRecord
from robo_rl.bench.suite.suite import ReportConfig

if TYPE_CHECKING:
    from numpy.typing import NDArray


def stage_number(kept: CellRecord, stage: str | None, name: str) -> float | None:
    """Return a number of a cell's stage; None if absent."""
    found = kept.stages[stage].numbers.get(name) if stage in kept.stages else None
    value = found.value if isinstance(found, NumberRecord) else found
    return float(value) if isinstance(value, (int, float)) else None


def score(kept: CellRecord, report: ReportConfig) -> float | None:
    """Return the score of the reported policy; None if undefined."""
    after = stage_number(kept, report.stage, report.measure)
    return (
        None if after is None else report.score_measure.score_of(after, score_before(kept, report))
    )


def score_before(kept: CellRecord, report: ReportConfig) -> float | None:
    """Return the value of the initial policy of the reported stage."""
    return stage_number(kept, report.stage, f"{report.measure}_before")


def episodes(kept: Iterable[CellRecord], report: ReportConfig) -> int:
    """Return the number of distinct evaluation episodes of cells; 0 if one is unknown.

    All cells of a task with the same episodes, seed and envs of ``eval`` have the same start states
    and noise. They are as many runs of the same episodes, which count once. Of records without a
    protocol every seed counts.
    """
    known: dict[tuple[str, Any], int] = {}
    for each in kept:
        found = each.stages[report.stage].numbers.get(report.measure)
        if not isinstance(found, NumberRecord) or not found.n:
            return 0
        known[each.task, start_states(each, found)] = found.n
    return sum(known.values())


def start_states(kept: CellRecord, number: NumberRecord) -> object:
    """Return the key of a number's start states and noise, which cells of a task can share.

    The hash of the protocol would tell equal episodes apart, because it changes with each new
    option of the env. Without a protocol it is the seed.
    """
    fixed = kept.config.get("eval", {})
    states = tuple(fixed.get(name) for name in ("episodes", "seed", "num_envs"))
    return states if protocol_of(number) else kept.seed


def protocol_of(number: NumberRecord) -> str:
    """Return the evaluation protocol of a number; empty if unknown."""
    return str((number.model_extra or {}).get("protocol", ""))


def stopped_early(kept: CellRecord, report: ReportConfig) -> bool:
    """Return whether training reached a stop criterion before its budget."""
    settings = kept.config.get("stages", {}).get(report.stage, {})
    for budget in ("updates", "env_steps"):
        made, most = stage_number(kept, report.stage, budget), settings.get(budget)
        if made is None or (most is not None and made >= most):
            return False
    return True


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean; None if a value is None, so that all means cover the same cells."""
    found = list(values)
    known = [value for value in found if value is not None]
    return sum(known) / len(known) if known and len(known) == len(found) else None


class Scores:
    """Scores of one method.

    Args:
        tasks: Tasks of the suite.
        kept: Kept cells of the method.
        report: Measure and stage.
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
        """Number of tasks with scores."""
        return sum(bool(seeds) for seeds in self.by_task.values())

    @property
    def seeds(self) -> list[int]:
        """Seeds that every task has, in the order of the first task."""
        return common_seeds([self])

    def table(self, seeds: Sequence[int] | None = None) -> NDArray[Any]:
        """Return the scores (seeds, tasks) of the given seeds, or of those that every task has."""
        chosen = self.seeds if seeds is None else seeds
        rows = [[scores[seed] for scores in self.by_task.values()] for seed in chosen]
        return np.array(rows, dtype=np.float64).reshape(len(chosen), len(self.by_task))


def common_seeds(several: Sequence[Scores]) -> list[int]:
    """Return the seeds that all methods have in every task, in the order of the first."""
    rows: list[Mapping[int, float]] = [row for each in several for row in each.by_task.values()]
    return [seed for seed in rows[0] if all(seed in row for row in rows)]
