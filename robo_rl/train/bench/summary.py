"""A suite's numbers, out of the cells that are kept: JSON that tables are made of.

Every interval is a 95 % stratified bootstrap over seeds (Agarwal et al. 2021, see ``stats``); one
seed has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from robo_rl.sequential import compare_sequentially
from robo_rl.stats import (
    improvement_interval,
    iqm,
    probability_of_improvement,
    stratified_bootstrap,
)
from robo_rl.train.bench.curve import fall
from robo_rl.train.bench.kept import Kept
from robo_rl.train.bench.plan import Cell
from robo_rl.train.bench.scores import Scores, common_seeds, mean, measured
from robo_rl.train.bench.suite import Key, Reported, Suite
from robo_rl.train.bench.times import ratio, times

Numbers = dict[str, Any]


def summarise(
    name: str, suite: Suite, cells: Mapping[Key, Cell], kept: Mapping[Key, Kept]
) -> Numbers:
    """All that is reported.

    Returns:
        Method → numbers over all tasks; ``tasks``: task → method → numbers; name of a ratio →
        median, and ``ratios`` with the pairs behind it; ``sequential`` verdicts; ``missing`` and
        ``stale`` (kept under other settings, left out) cells; ``machines``, ``versions``.
    """
    good = current(cells, kept)
    stale = [key for key in cells if key in kept and key not in good]
    ratios = {label: ratio(suite.report, each, good) for label, each in suite.report.ratios.items()}
    return {
        **_methods(suite, good),
        **{label: each["median"] for label, each in ratios.items()},
        "tasks": {task: _task(suite, good, task) for task in suite.tasks},
        "suite": name,
        "ratios": ratios,
        "sequential": _sequential(suite, good),
        "missing": [str(key) for key in cells if key not in kept],
        "stale": [str(key) for key in stale],
        "machines": sorted({_machine(each) for each in good.values()}),
        "versions": sorted({_versions(each) for each in good.values()}),
    }


def current(cells: Mapping[Key, Cell], kept: Mapping[Key, Kept]) -> dict[Key, Kept]:
    """Those kept cells that were made under the settings of now."""
    return {key: kept[key] for key in cells if key in kept and kept[key].is_of(cells[key])}


def _methods(suite: Suite, kept: Mapping[Key, Kept]) -> Numbers:
    """Every method over all tasks."""
    scores = _scores(suite, kept)
    return {
        method: _over_tasks(suite.report, own, _of(kept, method=method))
        | _improvement(own, scores.get(suite.report.reference))
        for method, own in scores.items()
    }


def _task(suite: Suite, kept: Mapping[Key, Kept], task: str) -> Numbers:
    """Every method that has been run on a task."""
    found: Numbers = {}
    for method in suite.methods:
        own = _of(kept, task=task, method=method)
        if own:
            scores = Scores([task], own, suite.report)
            found[method] = _over_tasks(suite.report, scores, own) | times(suite.report, own)
    return found


def _of(kept: Mapping[Key, Kept], **labels: str) -> list[Kept]:
    """Cells of a task, a method, or both."""
    return [
        each
        for each in kept.values()
        if all(getattr(each, name) == label for name, label in labels.items())
    ]


def _scores(suite: Suite, kept: Mapping[Key, Kept]) -> dict[str, Scores]:
    return {
        method: Scores(suite.tasks, _of(kept, method=method), suite.report)
        for method in suite.methods
    }


def _over_tasks(report: Reported, scores: Scores, kept: Sequence[Kept]) -> Numbers:
    """Mean with its interval and interquartile mean, on the seeds that every task has."""
    table, name = scores.table(), "success" if report.measure == "success" else "growth"
    found: Numbers = {name: mean(scores.values), "low": None, "high": None}
    if len(table):
        found = _interval(lambda x: float(x.mean()), table, name, "low", "high")
        found |= _interval(iqm, table, "iqm", "iqm_low", "iqm_high")
    return found | {"seeds": len(table), "cells": len(kept)} | _beside(report, kept)


def _interval(
    statistic: Callable[[Any], float], table: Any, value: str, low: str, high: str
) -> Numbers:
    ends = stratified_bootstrap(table, statistic) if len(table) > 1 else (None, None)
    return {value: statistic(table), low: ends[0], high: ends[1]}


def _improvement(scores: Scores, reference: Scores | None) -> Numbers:
    """Probability that a run is better than one of the reference method."""
    if reference is None or reference is scores or not (scores.seeds and reference.seeds):
        return {}
    tables = scores.table(), reference.table()
    value = probability_of_improvement(*tables)
    several = all(len(table) > 1 for table in tables)
    low, high = improvement_interval(*tables) if several else (None, None)
    return {"improvement": value, "improvement_low": low, "improvement_high": high}


def _beside(report: Reported, kept: Sequence[Kept]) -> Numbers:
    """Means of what stands beside the score; minutes as if no stage had been shared."""
    stage, student, measure = report.stage, report.student, report.measure

    def average(which: str, name: str) -> float | None:
        return mean(measured(each, which, name) for each in kept)

    return {
        "before": average(stage, f"{measure}_before"),
        "after": average(stage, measure),
        "one_step": average(student, measure),
        "teacher": average(student, f"teacher_{measure}"),
        "minutes": mean(sum(s.seconds for s in each.stages.values()) / 60 for each in kept),
    } | _falls(report, kept)


def _falls(report: Reported, kept: Iterable[Kept]) -> Numbers:
    """How many of the curves that there are end far below their best."""
    depths = [fall(each.points(), report.window) for each in kept]
    known = [depth for depth in depths if not math.isnan(depth)]
    fallen = sum(depth > report.fall for depth in known)
    return {"fallen": fallen, "curves": len(known), "deepest_fall": max(known, default=None)}


def _sequential(suite: Suite, kept: Mapping[Key, Kept]) -> list[Numbers]:
    """Verdicts on each method against the reference, on the seeds that all of them have."""
    plan, reference = suite.report.sequential, suite.report.reference
    methods = [reference, *(method for method in suite.methods if method != reference)]
    if len(methods) < 2 or reference not in suite.methods:
        return []
    scores = _scores(suite, kept)
    seeds = common_seeds([scores[method] for method in methods])
    tables = np.stack([scores[method].table(seeds) for method in methods])
    pairs = [(other, 0) for other in range(1, len(methods))]
    verdicts = compare_sequentially(
        tables, pairs, group=plan.group, groups=plan.groups, level=plan.level
    )
    return [
        {
            "method": methods[other],
            "reference": reference,
            "verdict": str(decision.verdict),
            "difference": None if math.isnan(decision.difference) else decision.difference,
            "seeds": decision.seeds,
        }
        for (other, _), decision in verdicts.items()
    ]


def _machine(kept: Kept) -> str:
    """What seconds depend on."""
    machine = kept.machine
    return (
        f"{machine.get('cores')} cores, {machine.get('processor')}, {machine.get('system')};"
        f" {kept.jobs} at once, {kept.threads} threads each"
    )


def _versions(kept: Kept) -> str:
    """What numbers depend on."""
    names = ("robo-rl", "python", "torch", "mujoco")
    return ", ".join(f"{name} {kept.versions[name]}" for name in names if name in kept.versions)
