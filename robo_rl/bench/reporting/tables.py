"""Formats a summary as tables of text, for the terminal and the results page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from robo_rl.bench.reporting.floor_tables import floor_tables
from robo_rl.bench.reporting.pilot_table import HEADER, pilot_rows
from robo_rl.bench.reporting.revisions import CellName, revisions_by_cell, row_revisions
from robo_rl.bench.reporting.table import Table
from robo_rl.bench.suite.formatting import (
    NOTHING,
    format_number,
    format_ratio,
    format_time,
    percent,
    with_interval,
)
from robo_rl.bench.suite.suite import ReportConfig, TimeRatioConfig
from robo_rl.train.checkpoint.progress import duration

Numbers = Mapping[str, Any]
ONE = {"reached": 1, "of": 1}


def tables(summary: Numbers, report: ReportConfig, methods: list[str]) -> list[Table]:
    """Return all tables of a summary that have rows.

    A table whose rows were made by different revisions of robo-rl has a column ``revision``.
    """
    found = [
        _by_task(summary, report),
        _parts(summary),
        _improved(summary),
        _gates(summary),
        _times(summary, report),
        _over_tasks(summary, report, methods),
        *floor_tables(summary, report, methods),
        _ratios(summary, report),
        _verdicts(summary, report),
    ]
    groups = revisions_by_cell(summary)
    # Pilots are other runs than the cells, whose revisions the summary has.
    title = "Pilots: settings tried on other tasks or seeds"
    pilots = Table(title, HEADER, pilot_rows(summary.get("pilots", {}), report))
    return [table for table in (*(_marked(t, groups) for t in found), pilots) if table.rows]


def _marked(table: Table, groups: Mapping[CellName, Sequence[str]]) -> Table:
    """Return the table with a column ``revision`` if its rows were made by different ones."""
    found = [row_revisions(table.header, row, groups) for row in table.rows]
    if "method" not in table.header or len(set(found)) < 2:
        return table
    rows = [(*row, text) for row, text in zip(table.rows, found, strict=True)]
    return table._replace(header=(*table.header, "revision"), rows=rows)


def _by_task(summary: Numbers, report: ReportConfig) -> Table:
    kind = report.score_measure
    header = ("task", "method", "seeds", "before", *kind.columns, "one step", "min a run")
    rows = [
        (
            task,
            method,
            str(each["seeds"]),
            kind.format_value(each["before"]),
            *kind.table_cells(each["after"], each[kind.score], each["low"], each["high"]),
            kind.format_value(each["one_step"]),
            format_number(each["minutes"]),
        )
        for task, method, each in _pairs(summary)
    ]
    return Table("Every task", header, rows)


def _parts(summary: Numbers) -> Table:
    """Return success by task of a multi-task env, and by variant of the world."""
    header = ("task", "method", "stage", "variant", "part", "seeds", "episodes", "success")
    rows = [
        (
            *(task, method, part["stage"], part["variant"] or NOTHING, part["task"] or "all"),
            *(str(part["seeds"]), str(part["episodes"]), percent(part["success"])),
            _ends(part, "low", "high"),
        )
        for task, method, each in _pairs(summary)
        for part in each["parts"]
    ]
    return Table("Success by part and variant", (*header, "95 % interval"), rows)


def _times(summary: Numbers, report: ReportConfig) -> Table:
    """Return median env steps and seconds to each success rate, with the initial success."""
    rates = [f"{100 * rate:g}" for rate in report.thresholds]
    header = (
        "task",
        "method",
        "before",
        *(f"steps to {r} %" for r in rates),
        *(f"to {r} %" for r in rates),
    )
    rows = [
        (
            task,
            method,
            report.score_measure.format_value(each["before"]),
            *(format_time(each["env_steps"][rate], format_number) for rate in rates),
            *(format_time(each["seconds"][rate], duration) for rate in rates),
        )
        for task, method, each in _pairs(summary)
        if report.score_measure.is_rate and any(each["env_steps"][rate]["of"] for rate in rates)
    ]
    curve = "in training" if report.curve == "training" else "without exploration"
    return Table(f"Env steps and time to a success rate {curve}, medians", header, rows)


def _improved(summary: Numbers) -> Table:
    rows = [
        (
            *(each["task"], each["method"], each["stage"]),
            *(_listed(each[name]) for name in ("seeds", "before", "after")),
            ", ".join(map(_goes_on, each["accepted"], each["waived"])),
        )
        for each in summary["improved"]
    ]
    header = ("task", "method", "stage", "seeds", "return before", "after", "kept policy")
    return Table("Offline improvement before the gate", header, rows)


def _goes_on(accepted: bool, waived: bool) -> str:
    return ("new, waived" if waived else "new") if accepted else "previous"


def _listed(amounts: Sequence[float]) -> str:
    return ", ".join(str(each) if isinstance(each, int) else f"{each:.2f}" for each in amounts)


def _gates(summary: Numbers) -> Table:
    header = (
        *("task", "method", "seed", "stage"),
        *("return before", "its value", "return after", "its value"),
        *("widened by", "OOD distance", "kept policy"),
    )
    rows = [
        (
            *(each["task"], each["method"], str(each["seed"]), each["stage"]),
            *(
                with_interval(each[name])
                for name in ("before", "value_before", "after", "value_after")
            ),
            *(_known(each[name]) for name in ("model_error", "ood_distance")),
            _goes_on(each["accepted"], each["waived"]),
        )
        for each in summary["gates"]
    ]
    return Table("Improved from data alone: returns, and values that the gate saw", header, rows)


def _known(amount: float | None) -> str:
    return NOTHING if amount is None else f"{amount:.2f}"


def _over_tasks(summary: Numbers, report: ReportConfig, methods: list[str]) -> Table:
    kind, scores = report.score_measure, report.score_measure.columns[-2:]
    better = f"better than {report.reference}"
    header = (
        "method",
        "tasks",
        "seeds",
        "before",
        *scores,
        "IQM",
        "95 % interval",
        "one step",
        better,
        "worse than before",
        "degraded",
        "rollbacks",
        "stopped early",
    )
    rows = [
        (
            method,
            f"{each['tasks']} of {len(summary['tasks'])}",
            str(each["seeds"]),
            kind.format_value(each["before"]),
            *kind.table_cells(None, each[kind.score], each["low"], each["high"])[-2:],
            *kind.table_cells(None, *(each.get(name) for name in ("iqm", "iqm_low", "iqm_high")))[
                -2:
            ],
            kind.format_value(each["one_step"]),
            _improvement(each),
            f"{each['worse']} of {each['cells']}",
            _fallen(each),
            NOTHING if each["rollbacks"] is None else str(each["rollbacks"]),
            f"{each['stopped_early']} of {each['cells']}",
        )
        for method in methods
        if (each := summary[method])["kept"]
    ]
    return Table("All tasks", header, rows)


def _fallen(each: Numbers) -> str:
    return f"{each['degraded']} of {each['curves']}" if each["curves"] else NOTHING


def _improvement(each: Numbers) -> str:
    if "improvement" not in each:
        return NOTHING
    ends = _ends(each, "improvement_low", "improvement_high")
    return f"{percent(each['improvement'])} {ends}".removesuffix(f" {NOTHING}")


def _clock(which: TimeRatioConfig) -> str:
    """Return what a ratio compares: ``seconds with bc to 90 %``."""
    stages = "".join(f" with {label}" for label in which.prior_stages)
    return f"{which.axis.replace('_', ' ')}{stages} to {percent(which.threshold)}"


def _ratios(summary: Numbers, report: ReportConfig) -> Table:
    rows = [
        (
            name.replace("_", " "),
            f"{which.slow} ÷ {which.fast}",
            _clock(which),
            format_time({**each, **ONE}, format_ratio),
            str(len(each["pairs"])),
            _range(each["pairs"]),
            ("> " if each["mean_at_least"] else "") + format_ratio(each["mean"]),
            NOTHING if each["low"] is None else f"[{each['low']:.2f}, {each['high']:.2f}]",
            " ÷ ".join(
                report.score_measure.format_value(each["before"][side]) for side in ("slow", "fast")
            ),
        )
        for name, each in summary["ratios"].items()
        for which in [report.ratios[name]]
    ]
    header = (
        "ratio",
        "of",
        "in",
        "median",
        "pairs",
        "range",
        "geometric mean",
        "95 % interval",
        "before",
    )
    return Table("Ratios", header, rows)


def _range(pairs: Sequence[Numbers]) -> str:
    """Return the smallest and the largest ratio as text."""
    ends = [choose(pairs, key=lambda pair: pair["ratio"]) for choose in (min, max) if pairs]
    return " … ".join(
        format_time({**end, **ONE, "median": end["ratio"]}, format_ratio) for end in ends
    )


def _verdicts(summary: Numbers, report: ReportConfig) -> Table:
    rows = [
        (
            f"{each['method']} – {each['reference']}",
            NOTHING
            if each["difference"] is None
            else report.score_measure.format_difference(each["difference"]),
            str(each["seeds"]),
            _verdict(each),
        )
        for each in summary["sequential"]
    ]
    level = percent(report.sequential.alpha)
    title = (
        f"Sequential test of {report.measure}, level {level} for all pairs of the suite together"
    )
    return Table(title, ("pair", "difference", "seeds", "verdict"), rows)


def _verdict(each: Numbers) -> str:
    """Return the verdict, with the seeds that are still needed."""
    following = ", ".join(map(str, each["next"]))
    return f"{each['verdict']}: {following}" if following else each["verdict"]


def _pairs(summary: Numbers) -> Iterator[tuple[str, str, Numbers]]:
    for task, methods in summary["tasks"].items():
        for method, each in methods.items():
            yield task, method, each


def _ends(each: Numbers, low: str, high: str) -> str:
    if each.get(low) is None:
        return NOTHING
    return f"[{100 * each[low]:.1f}, {100 * each[high]:.1f}]"
