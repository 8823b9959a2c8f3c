"""A suite's numbers, out of the cells that are kept: JSON that tables are made of.

Every interval is a 95 % stratified bootstrap over seeds (Agarwal et al. 2021, see ``stats``); one
seed has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from robo_rl.sequential import compare_sequentially
from robo_rl.stats import (
    improvement_interval,
    iqm,
    probability_of_improvement,
    stratified_bootstrap,
)
from robo_rl.train.bench.falls import depth, has_fallen
from robo_rl.train.bench.kept import Kept
from robo_rl.train.bench.paces import Pace
from robo_rl.train.bench.plan import Cell
from robo_rl.train.bench.scores import Scores, before, common_seeds, mean, measured
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
        ``stale`` (kept under other settings, left out) cells; ``machines``, ``versions``, and
        ``made``: which cells were made under which of these.
    """
    good = current(cells, kept)
    stale = [key for key in cells if key in kept and key not in good]
    ratios = {label: ratio(suite.report, each, good) for label, each in suite.report.ratios.items()}
    made = {"machines": _made(good, _machine), "commits": _made(good, _commit)}
    return {
        **_methods(suite, good),
        **{label: each["median"] for label, each in ratios.items()},
        "tasks": {task: _task(suite, good, task) for task in suite.tasks},
        "suite": name,
        "ratios": ratios,
        "sequential": _sequential(suite, good),
        "missing": [str(key) for key in cells if key not in kept],
        "stale": [str(key) for key in stale],
        "machines": list(made["machines"]),
        "versions": sorted({text for each in good.values() if (text := _versions(each))}),
        "made": made,
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
            chosen = _of_seeds(own, scores.seeds)
            found[method] = _over_tasks(suite.report, scores, own) | times(suite.report, chosen)
    return found


def _of(kept: Mapping[Key, Kept], **labels: str) -> list[Kept]:
    """Cells of a task, a method, or both."""
    return [
        each
        for each in kept.values()
        if all(getattr(each, name) == label for name, label in labels.items())
    ]


def _of_seeds(kept: Iterable[Kept], seeds: Collection[int]) -> list[Kept]:
    return [each for each in kept if each.seed in seeds]


def _scores(suite: Suite, kept: Mapping[Key, Kept]) -> dict[str, Scores]:
    return {
        method: Scores(suite.tasks, _of(kept, method=method), suite.report)
        for method in suite.methods
    }


def _over_tasks(report: Reported, scores: Scores, kept: Sequence[Kept]) -> Numbers:
    """Mean with its interval and interquartile mean, and what stands beside them.

    All are of the same cells, those of the seeds that every task has; without any they are None.
    ``tasks`` says how many tasks have a score, ``cells`` of how many cells the numbers are.
    """
    table, name = scores.table(), "success" if report.measure == "success" else "growth"
    found: Numbers = {name: None, "low": None, "high": None}
    if len(table):
        found = _interval(lambda x: float(x.mean()), table, name, "low", "high")
        found |= _interval(iqm, table, "iqm", "iqm_low", "iqm_high")
    counts = {"seeds": len(table), "cells": table.size, "tasks": scores.tasks, "kept": len(kept)}
    return found | counts | _beside(report, _of_seeds(kept, scores.seeds))


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

    def average(which: str | None, name: str) -> float | None:
        return mean(measured(each, which, name) for each in kept)

    return {
        "before": mean(before(each, report) for each in kept),
        "after": average(stage, measure),
        "one_step": average(student, measure),
        "teacher": average(student, f"teacher_{measure}"),
        "minutes": mean(sum(s.seconds for s in each.stages.values()) / 60 for each in kept),
    } | _falls(report, kept)


def _falls(report: Reported, kept: Iterable[Kept]) -> Numbers:
    """How many of the curves that there are have fallen, and how far; see ``falls``."""
    curves = [each.points(report.curve) for each in kept] if report.measure == "success" else []
    pairs = [(points, depth(points, report.window)) for points in curves]
    known = [(points, deep) for points, deep in pairs if not math.isnan(deep)]
    fallen = sum(has_fallen(points, report.window, report.fall) for points, _ in known)
    depths = [deep for _, deep in known]
    deepest = {"deepest_fall": max(depths, default=None), "mean_fall": mean(depths)}
    return {"fallen": fallen, "curves": len(known), **deepest}


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


def _made(kept: Mapping[Key, Kept], how: Callable[[Kept, Pace], str]) -> dict[str, list[str]]:
    """Cells by how they were made; one that took several sittings may be there several times."""
    found: dict[str, list[str]] = {}
    for key, each in kept.items():
        for name in dict.fromkeys(how(each, pace) for pace in each.paces):
            found.setdefault(name, []).append(str(key))
    return dict(sorted(found.items()))


def _machine(kept: Kept, pace: Pace) -> str:
    """What seconds depend on."""
    machine = kept.machine
    return (
        f"{machine.get('cores')} cores, {machine.get('processor')}, {machine.get('system')},"
        f" {pace.jobs} at once, {pace.threads} threads each"
    )


def _commit(_: Kept, pace: Pace) -> str:
    """Which code made the numbers."""
    return f"robo-rl {pace.version or 'of unknown version'}"


def _versions(kept: Kept) -> str:
    """What numbers depend on besides that."""
    names = ("python", "torch", "mujoco")
    return ", ".join(f"{name} {kept.versions[name]}" for name in names if name in kept.versions)
