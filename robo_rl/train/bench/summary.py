"""A suite's numbers, out of the cells that are kept: JSON that tables are made of.

Every interval is of 95 %, over seeds, and Student's (see ``aggregates``); that of a success rate is
no narrower than Wilson's of all episodes. One seed has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from robo_rl.aggregates import (
    improvement_bounds,
    iqm,
    probability_of_improvement,
    spread_interval,
)
from robo_rl.train.bench.falls import depth, has_fallen
from robo_rl.train.bench.kept import Kept
from robo_rl.train.bench.paces import Pace, described
from robo_rl.train.bench.plan import Cell
from robo_rl.train.bench.scores import (
    Scores,
    before,
    episodes,
    mean,
    measured,
    score,
    stopped_early,
)
from robo_rl.train.bench.suite import Key, Reported, Suite
from robo_rl.train.bench.times import ratio, times
from robo_rl.train.bench.verdicts import verdicts

UNKNOWN = "of unknown version"
CUTS = 4  # scores, of which the interquartile mean leaves some out; of fewer it is the mean

Numbers = dict[str, Any]
Ends = tuple[float, float] | tuple[None, None]


class Whole(NamedTuple):
    """A whole suite, and its good cells: whatever part is looked at, it is tested as a whole."""

    suite: Suite
    good: Mapping[Key, Kept]


def summarise(
    name: str,
    suite: Suite,
    cells: Mapping[Key, Cell],
    kept: Mapping[Key, Kept],
    whole: Whole | None = None,
) -> Numbers:
    """All that is reported.

    Args:
        name: Of the suite.
        suite: It, or the part that is looked at.
        cells: Of these.
        kept: Whatever is kept.
        whole: What the part is of; itself if not given.

    Returns:
        Method → numbers over all tasks; ``tasks``: task → method → numbers; name of a ratio →
        median, and ``ratios`` with the pairs behind it; ``sequential`` verdicts; ``missing``,
        ``stale`` (kept under other settings, left out) and ``unscored`` cells; ``machines``,
        ``versions``, and ``made``: which cells were made under which of these, which were
        interrupted, and of which that is unnoted.
    """
    good = current(cells, kept)
    stale = [key for key in cells if key in kept and key not in good]
    ratios = {label: ratio(suite.report, each, good) for label, each in suite.report.ratios.items()}
    made = {
        "machines": _made(good, lambda each: [_machine(each, pace) for pace in each.paces]),
        "commits": _made(good, lambda each: [f"robo-rl {v or UNKNOWN}" for v in each.commits]),
        "interrupted": [str(key) for key, each in good.items() if each.interrupted],
        "unnoted": [str(key) for key, each in good.items() if each.interrupted is None],
    }
    return {
        **_methods(suite, good),
        **{label: each["median"] for label, each in ratios.items()},
        "tasks": {task: _task(suite, good, task) for task in suite.tasks},
        "suite": name,
        "ratios": ratios,
        "sequential": verdicts(*(whole or Whole(suite, good)), suite.methods),
        "missing": [str(key) for key in cells if key not in kept],
        "stale": [str(key) for key in stale],
        "unscored": [str(key) for key, each in good.items() if score(each, suite.report) is None],
        "machines": list(made["machines"]),
        "versions": sorted({text for each in good.values() for text in _versions(each)}),
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
    table, name = scores.table(), report.kind.score
    found: Numbers = {name: None, "low": None, "high": None}
    chosen = _of_seeds(kept, scores.seeds)
    if len(table):
        low, high = _mean_interval(report, table, chosen)
        found = {name: float(table.mean()), "low": low, "high": high}
        low, high = _iqm_interval(report, table)
        found |= {"iqm": iqm(table), "iqm_low": low, "iqm_high": high}
    counts = {"seeds": len(table), "cells": table.size, "tasks": scores.tasks, "kept": len(kept)}
    return found | counts | _beside(report, chosen)


def _mean_interval(report: Reported, table: Any, kept: Sequence[Kept]) -> Ends:
    """Of the mean over seeds and tasks."""
    if len(table) < 2:
        return None, None
    return report.kind.interval(table, episodes(kept, report))


def _iqm_interval(report: Reported, table: Any) -> Ends:
    """None of a single seed, of so few scores that nothing is cut, or of such as never vary."""
    if len(table) < 2 or table.size < CUTS:
        return None, None
    found = spread_interval(table, iqm)
    return (None, None) if found.low == found.high else report.kind.held(found)


def _improvement(scores: Scores, reference: Scores | None) -> Numbers:
    """Probability that a run is better than one of the reference method."""
    if reference is None or reference is scores or not (scores.seeds and reference.seeds):
        return {}
    tables = scores.table(), reference.table()
    value = probability_of_improvement(*tables)
    several = all(len(table) > 1 for table in tables)
    low, high = improvement_bounds(*tables) if several else (None, None)
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


def _falls(report: Reported, kept: Sequence[Kept]) -> Numbers:
    """How many of the curves that could fall have fallen, and how far; see ``falls``.

    ``stopped_early`` is how many of all runs had not the time that they were given; ``rollbacks``
    how often the guard went back in all of them, None where a run does not say.
    """
    went_back = mean(measured(each, report.stage, "rollbacks") for each in kept)
    early = sum(stopped_early(each, report) for each in kept)
    curves = [each.points(report.curve) for each in kept] if report.kind.is_rate else []
    pairs = [(points, depth(points, report.window)) for points in curves]
    known = [(points, deep) for points, deep in pairs if not math.isnan(deep)]
    fallen = sum(has_fallen(points, report.window, report.fall) for points, _ in known)
    depths = [deep for _, deep in known]
    deepest = {"deepest_fall": max(depths, default=None), "mean_fall": mean(depths)}
    counts = {"fallen": fallen, "curves": len(known), "stopped_early": early}
    total = None if went_back is None else round(went_back * len(kept))
    return counts | deepest | {"rollbacks": total}


def _made(kept: Mapping[Key, Kept], how: Callable[[Kept], Iterable[str]]) -> dict[str, list[str]]:
    """Cells by how they were made; one that took several sittings may be there several times."""
    found: dict[str, list[str]] = {}
    for key, each in kept.items():
        for name in dict.fromkeys(how(each)):
            found.setdefault(name, []).append(str(key))
    return dict(sorted(found.items()))


def _machine(kept: Kept, pace: Pace) -> str:
    """What seconds depend on."""
    place = pace.machine or described(kept.machine)
    return f"{place}, {pace.jobs} at once, {pace.threads} threads each"


def _versions(kept: Kept) -> set[str]:
    """What numbers depend on besides that, of all processes that worked on it."""
    names = ("python", "torch", "numpy", "mujoco", "gymnasium", "metaworld")
    noted = [start for stage in kept.stages.values() for start in stage.starts]
    texts = (
        ", ".join(f"{name} {found[name]}" for name in names if name in found)
        for found in noted or [kept.versions]
    )
    return {text for text in texts if text}
