"""Numbers of a method: its mean and interquartile mean, and what stands beside them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from robo_rl.bench.results.cell_record import CellRecord
from robo_rl.bench.results.degradation import degradation_depth, has_degraded
from robo_rl.bench.results.scores import (
    Scores,
    episodes,
    mean,
    score_before,
    stage_number,
    stopped_early,
)
from robo_rl.bench.suite.suite import ReportConfig
from robo_rl.stats.across_runs import iqm, num_trimmed, spread_interval

Numbers = dict[str, Any]
Ends = tuple[float, float] | tuple[None, None]


def averages(report: ReportConfig, scores: Scores, kept: Sequence[CellRecord]) -> Numbers:
    """Mean with its interval and interquartile mean, and what stands beside them.

    All are of the same cells, those of the seeds that every task has; without any they are None.
    ``tasks`` says how many tasks have a score, ``cells`` of how many cells the numbers are.
    """
    table, name = scores.table(), report.score_measure.score
    found: Numbers = {name: None, "low": None, "high": None}
    chosen = select_seeds(kept, scores.seeds)
    if len(table):
        low, high = _mean_interval(report, table, chosen)
        found = {name: float(table.mean()), "low": low, "high": high}
        low, high = _iqm_interval(report, table)
        found |= {"iqm": iqm(table), "iqm_low": low, "iqm_high": high}
    counts = {"seeds": len(table), "cells": table.size, "tasks": scores.tasks, "kept": len(kept)}
    return found | counts | _beside(report, chosen)


def _mean_interval(report: ReportConfig, table: Any, kept: Sequence[CellRecord]) -> Ends:
    """Of the mean over seeds and tasks."""
    if len(table) < 2:
        return None, None
    return report.score_measure.interval(table, episodes(kept, report))


def _iqm_interval(report: ReportConfig, table: Any) -> Ends:
    """None of a single seed, of so few scores that nothing is cut, or of such as never vary."""
    if len(table) < 2 or not num_trimmed(table.size):
        return None, None
    found = spread_interval(table, iqm)
    return (None, None) if found.low == found.high else report.score_measure.clip(found)


def select_seeds(kept: Iterable[CellRecord], seeds: Collection[int]) -> list[CellRecord]:
    """Cells of these seeds."""
    return [each for each in kept if each.seed in seeds]


def _beside(report: ReportConfig, kept: Sequence[CellRecord]) -> Numbers:
    """Means of what stands beside the score; minutes as if no stage had been shared."""
    stage, student, measure = report.stage, report.student, report.measure

    def average(which: str | None, name: str) -> float | None:
        return mean(stage_number(each, which, name) for each in kept)

    return {
        "before": mean(score_before(each, report) for each in kept),
        "after": average(stage, measure),
        "one_step": average(student, measure),
        "teacher": average(student, f"teacher_{measure}"),
        "minutes": mean(sum(s.seconds for s in each.stages.values()) / 60 for each in kept),
    } | _falls(report, kept)


def _is_worse(kept: CellRecord, report: ReportConfig) -> bool:
    after, first = stage_number(kept, report.stage, report.measure), score_before(kept, report)
    least = report.degradation_threshold if report.score_measure.is_rate else 0.0
    return after is not None and first is not None and after < first - least


def _falls(report: ReportConfig, kept: Sequence[CellRecord]) -> Numbers:
    """How many of the curves that could fall have fallen, and how far; see ``falls``.

    ``stopped_early`` is how many of all runs had not the time that they were given; ``rollbacks``
    how often the guard went back in all of them, None where a run does not say; ``worse`` how many
    runs ended by more than a fall below the policy that they began with.
    """
    went_back = mean(stage_number(each, report.stage, "rollbacks") for each in kept)
    early = sum(stopped_early(each, report) for each in kept)
    curves = [each.points(report.curve) for each in kept] if report.score_measure.is_rate else []
    pairs = [(points, degradation_depth(points, report.window)) for points in curves]
    known = [(points, deep) for points, deep in pairs if not math.isnan(deep)]
    fallen = sum(
        has_degraded(points, report.window, report.degradation_threshold) for points, _ in known
    )
    depths = [deep for _, deep in known]
    deepest = {"max_degradation": max(depths, default=None), "mean_degradation": mean(depths)}
    counts = {"degraded": fallen, "curves": len(known), "stopped_early": early}
    counts |= {"worse": sum(_is_worse(each, report) for each in kept)}
    total = None if went_back is None else round(went_back * len(kept))
    return counts | deepest | {"rollbacks": total}
