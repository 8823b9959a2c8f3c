"""Tables of a suite with a floor of success: mean and worst task, and the tasks below the floor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from robo_rl.bench.reporting.table import Table
from robo_rl.bench.results.scores import mean
from robo_rl.bench.suite.formatting import NOTHING, percent
from robo_rl.bench.suite.suite import ReportConfig

Numbers = Mapping[str, Any]


def floor_tables(summary: Numbers, report: ReportConfig, methods: list[str]) -> Iterator[Table]:
    """Yield both tables, if the suite has a floor."""
    if report.floor is not None:
        yield _extremes(summary, report.floor, methods)
        yield _below(summary, report.floor, report.causes, methods)


def _extremes(summary: Numbers, floor: float, methods: list[str]) -> Table:
    """Return mean, worst task, number of tasks below the floor, and the one-step difference."""
    header = ("method", "tasks", "mean", "worst task", "success", f"below {percent(floor)}")
    rows = [
        _extreme_row(method, rates, summary["tasks"], floor)
        for method in methods
        if (rates := dict(_rates(summary, method)))
    ]
    return Table("Mean and worst task", (*header, "one step less all steps"), rows)


def _extreme_row(
    method: str, rates: Mapping[str, float], tasks: Numbers, floor: float
) -> tuple[str, ...]:
    worst = min(rates, key=lambda task: rates[task])
    below = sum(rate < floor for rate in rates.values())
    lags = mean(_lag(tasks[task][method]) for task in rates)
    return (
        *(method, str(len(rates)), percent(mean(rates.values()))),
        *(worst, percent(rates[worst]), str(below)),
        NOTHING if lags is None else f"{100 * lags:+.1f} points",
    )


def _lag(each: Numbers) -> float | None:
    """Return the success of the one-step policy less that of all steps; None if unknown."""
    step, after = each["one_step"], each["after"]
    return None if step is None or after is None else step - after


def _below(summary: Numbers, floor: float, causes: Mapping[str, str], methods: list[str]) -> Table:
    """Return the tasks below the floor, the worst first, each with its cause if one is given."""
    rows = [
        (
            *(task, method, percent(each["before"]), percent(rate), percent(each["one_step"])),
            causes.get(task, NOTHING),
        )
        for method in methods
        for task, rate in sorted(_rates(summary, method), key=lambda pair: pair[1])
        if rate < floor
        for each in [summary["tasks"][task][method]]
    ]
    header = ("task", "method", "before", "success", "one step", "cause")
    return Table(f"Tasks below {percent(floor)}", header, rows)


def _rates(summary: Numbers, method: str) -> Iterator[tuple[str, float]]:
    """Yield task and success rate of the tasks with kept cells."""
    for task, methods in summary["tasks"].items():
        if method in methods and methods[method]["success"] is not None:
            yield task, methods[method]["success"]
