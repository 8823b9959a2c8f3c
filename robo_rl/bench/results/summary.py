"""Summarises the kept cells of a suite as JSON, the source of all tables.

Every interval is Student's 95 % interval over seeds (see ``robo_rl.stats.across_runs``). That of a
success rate is at least as wide as Wilson's of the distinct episodes. One seed has no interval.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from robo_rl.bench.results.averages import Numbers, averages, select_seeds
from robo_rl.bench.results.cell_record import CellRecord
from robo_rl.bench.results.gate_outcomes import collect_gate_outcomes, group_by_method
from robo_rl.bench.results.origin.provenance import run_provenance, versions
from robo_rl.bench.results.origin.world_mismatch import world_mismatches
from robo_rl.bench.results.parts import parts
from robo_rl.bench.results.scores import Scores, score
from robo_rl.bench.results.sequential_verdicts import verdicts
from robo_rl.bench.results.time_to_threshold import median_times, time_ratio
from robo_rl.bench.suite.plan import Cell
from robo_rl.bench.suite.suite import CellKey, Suite
from robo_rl.stats.across_runs import improvement_bounds, probability_of_improvement


class FullSuite(NamedTuple):
    """A whole suite with its comparable cells, which the sequential test uses for any part."""

    suite: Suite
    records: Mapping[CellKey, CellRecord]


def summarise(
    name: str,
    suite: Suite,
    cells: Mapping[CellKey, Cell],
    kept: Mapping[CellKey, CellRecord],
    whole: FullSuite | None = None,
) -> Numbers:
    """Return all reported numbers.

    Args:
        name: Name of the suite.
        suite: The suite, or the selected part of it.
        cells: Cells of that part.
        kept: All kept cells.
        whole: The whole suite; None if ``suite`` is whole.

    Returns:
        Method → numbers over all tasks; ``tasks``: task → method → numbers, with ``parts``; name of
        a ratio → median, and ``ratios`` with their pairs; ``gates``, and ``improved`` by method;
        ``sequential`` verdicts. ``missing``, ``stale`` (other settings, left out) and ``unscored``
        list cells. ``other_world`` maps left-out cells to differences from the newest cell's world.
        ``former_defaults`` maps values of options that cells lack, and whose defaults describe
        other runs, to these cells. ``world_unknown`` counts cells without a recorded world.
        ``machines`` and ``versions`` list those of the cells; ``provenance`` groups the cells by
        machine, commit and interruption.
    """
    good = comparable_cells(cells, kept)
    same = with_current_settings(cells, kept)
    stale = [key for key in cells if key in kept and key not in same]
    ratios = {
        label: time_ratio(suite.report, each, good) for label, each in suite.report.ratios.items()
    }
    how, saw = run_provenance(good), collect_gate_outcomes(good)
    return {
        **_methods(suite, good),
        **{label: each["median"] for label, each in ratios.items()},
        "tasks": {task: _task(suite, good, task) for task in suite.tasks},
        "suite": name,
        "ratios": ratios,
        "gates": saw,
        "improved": group_by_method(saw),
        "sequential": verdicts(*(whole or FullSuite(suite, good)), suite.methods),
        "missing": [str(key) for key in cells if key not in kept],
        "stale": [str(key) for key in stale],
        "other_world": {str(key): found for key, found in world_mismatches(cells, same).items()},
        "former_defaults": _formerly(cells, good),
        "world_unknown": sum(not each.world for each in good.values()),
        "unscored": [str(key) for key, each in good.items() if score(each, suite.report) is None],
        "machines": list(how["machines"]),
        "versions": versions(good),
        "provenance": how,
    }


def _formerly(
    cells: Mapping[CellKey, Cell], good: Mapping[CellKey, CellRecord]
) -> dict[str, list[str]]:
    found = dict[str, list[str]]()
    for key, record in good.items():
        if options := record.former_defaults(cells[key]):
            text = ", ".join(f"{name} {value}" for name, value in options.items())
            found.setdefault(text, []).append(str(key))
    return found


def comparable_cells(
    cells: Mapping[CellKey, Cell], kept: Mapping[CellKey, CellRecord]
) -> dict[CellKey, CellRecord]:
    """Return the kept cells of the current settings and of one world."""
    found = with_current_settings(cells, kept)
    others = world_mismatches(cells, found)
    return {key: each for key, each in found.items() if key not in others}


def with_current_settings(
    cells: Mapping[CellKey, Cell], kept: Mapping[CellKey, CellRecord]
) -> dict[CellKey, CellRecord]:
    """Return the kept cells of the current settings."""
    return {key: kept[key] for key in cells if key in kept and kept[key].matches_cell(cells[key])}


def _methods(suite: Suite, kept: Mapping[CellKey, CellRecord]) -> Numbers:
    """Return the numbers of every method over all tasks."""
    scores = _scores(suite, kept)
    return {
        method: averages(suite.report, own, _of(kept, method=method))
        | _improvement(own, scores.get(suite.report.reference))
        for method, own in scores.items()
    }


def _task(suite: Suite, kept: Mapping[CellKey, CellRecord], task: str) -> Numbers:
    """Return the numbers of every method with kept cells of a task."""
    found: Numbers = {}
    for method in suite.methods:
        own = _of(kept, task=task, method=method)
        if own:
            scores = Scores([task], own, suite.report)
            chosen = select_seeds(own, scores.seeds)
            found[method] = averages(suite.report, scores, own) | median_times(suite.report, chosen)
            found[method] |= {"parts": parts(own)}
    return found


def _of(kept: Mapping[CellKey, CellRecord], **labels: str) -> list[CellRecord]:
    """Return the cells of a task, a method, or both."""
    return [
        each
        for each in kept.values()
        if all(getattr(each, name) == label for name, label in labels.items())
    ]


def _scores(suite: Suite, kept: Mapping[CellKey, CellRecord]) -> dict[str, Scores]:
    return {
        method: Scores(suite.tasks, _of(kept, method=method), suite.report)
        for method in suite.methods
    }


def _improvement(scores: Scores, reference: Scores | None) -> Numbers:
    """Return the probability that a run is better than one of the reference method."""
    if reference is None or reference is scores or not (scores.seeds and reference.seeds):
        return {}
    tables = scores.table(), reference.table()
    value = probability_of_improvement(*tables)
    several = all(len(table) > 1 for table in tables)
    low, high = improvement_bounds(*tables) if several else (None, None)
    return {"improvement": value, "improvement_low": low, "improvement_high": high}
