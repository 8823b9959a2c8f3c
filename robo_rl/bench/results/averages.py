"""Aggregates of a method: mean, interquartile mean, and further numbers."""

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
    """Return mean with interval, interquartile mean, and further numbers.

    All refer to the same cells: those of the seeds that every task has. Without such seeds they are
    None. ``tasks`` is the number of tasks with scores, ``cells`` the number of cells.
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
    """Return the interval of the mean over seeds and tasks; None for one seed."""
    if len(table) < 2:
        return None, None
    return report.score_measure.interval(table, episodes(kept, report))


def _iqm_interval(report: ReportConfig, table: Any) -> Ends:
    """Return the interval of the IQM; None for one seed, too few scores, or constant scores."""
    if len(table) < 2 or not num_trimmed(table.size):
        return None, None
    found = spread_interval(table, iqm)
    return (None, None) if found.low == found.high else report.score_measure.clip(found)


def select_seeds(kept: Iterable[CellRecord], seeds: Collection[int]) -> list[CellRecord]:
    """Return the cells of these seeds."""
    return [each for each in kept if each.seed in seeds]


def _beside(report: ReportConfig, kept: Sequence[CellRecord]) -> Numbers:
    """Return means of further numbers; minutes count shared stages in full for each cell."""
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
    # The margin is for rounding: 40 % to 35 % is a loss of 5 points, and not of more.
    return after is not None and first is not None and first - after > least + 1e-9


def _has_shared_starts(kept: CellRecord, report: ReportConfig) -> bool:
    """Return whether training episodes share starts in groups, so that they are not independent."""
    stage = kept.config.get("stages", {}).get(report.stage) or {}
    return (stage.get("algo") or {}).get("group_size", 1) > 1


def _falls(report: ReportConfig, kept: Sequence[CellRecord]) -> Numbers:
    """Count degraded curves, and measure their depth; see ``degradation``.

    ``stopped_early`` counts runs that ended before their budget. ``rollbacks`` is the total over
    runs, None if one is unknown. ``worse`` counts runs that ended below their initial policy: a
    rate by more than the degradation threshold, a return by any amount.
    """
    went_back = mean(stage_number(each, report.stage, "rollbacks") for each in kept)
    early = sum(stopped_early(each, report) for each in kept)
    rated = [
        each
        for each in kept
        if report.score_measure.is_rate and not _has_shared_starts(each, report)
    ]
    curves = [each.points(report.curve) for each in rated]
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
