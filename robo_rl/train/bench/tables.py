"""A summary as tables of text, for the terminal and for the page of results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from robo_rl.train.bench.suite import Reported
from robo_rl.train.logger import duration

Numbers = Mapping[str, Any]
NOTHING = "–"


class Table(NamedTuple):
    """A title, names of columns, and rows of text."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


def tables(summary: Numbers, report: Reported, methods: list[str]) -> list[Table]:
    """All tables of a summary that have rows."""
    found = [
        _by_task(summary, report),
        _times(summary, report),
        _over_tasks(summary, report, methods),
        _ratios(summary, report),
        _verdicts(summary, report),
    ]
    return [table for table in found if table.rows]


def _by_task(summary: Numbers, report: Reported) -> Table:
    header = ("task", "method", "seeds", "before", *_score_names(report), "one step", "min a run")
    rows = [
        (
            task,
            method,
            str(each["seeds"]),
            value(each["before"], report),
            *_score(each, report),
            value(each["one_step"], report),
            number(each["minutes"]),
        )
        for task, method, each in _pairs(summary)
    ]
    return Table("Every task", header, rows)


def _score_names(report: Reported) -> tuple[str, ...]:
    if report.measure == "success":
        return ("success", "95 % interval")
    return ("after", "growth", "95 % interval")


def _score(each: Numbers, report: Reported) -> tuple[str, ...]:
    """The score with its interval; in front of a growth the return that has grown."""
    if report.measure == "success":
        return percent(each["success"]), _ends(each, "low", "high")
    growth = each["growth"]
    shown = NOTHING if growth is None else f"{growth:+.0f} %"
    ends = NOTHING if each["low"] is None else f"[{each['low']:+.0f}, {each['high']:+.0f}]"
    return value(each["after"], report), shown, ends


def _times(summary: Numbers, report: Reported) -> Table:
    """Medians of env steps and of seconds to each rate, beside what they began with."""
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
            value(each["before"], report),
            *(when(each["env_steps"][rate], number) for rate in rates),
            *(when(each["seconds"][rate], duration) for rate in rates),
        )
        for task, method, each in _pairs(summary)
        if report.measure == "success" and any(each["env_steps"][rate]["of"] for rate in rates)
    ]
    curve = "in training" if report.curve == "training" else "without exploration"
    return Table(f"Env steps and time to a success rate {curve}, medians", header, rows)


def _over_tasks(summary: Numbers, report: Reported, methods: list[str]) -> Table:
    scores = ("success" if report.measure == "success" else "growth", "95 % interval")
    better = f"better than {report.reference}"
    header = (
        "method",
        "tasks",
        "seeds",
        *scores,
        "IQM",
        "95 % interval",
        "one step",
        better,
        "fallen",
        "stopped early",
    )
    rows = [
        (
            method,
            f"{each['tasks']} of {len(summary['tasks'])}",
            str(each["seeds"]),
            *_score(each, report)[-2:],
            *_score(_iqm(each, report), report)[-2:],
            value(each["one_step"], report),
            _improvement(each),
            _fallen(each),
            f"{each['stopped_early']} of {each['cells']}",
        )
        for method in methods
        if (each := summary[method])["kept"]
    ]
    return Table("All tasks", header, rows)


def _fallen(each: Numbers) -> str:
    return f"{each['fallen']} of {each['curves']}" if each["curves"] else NOTHING


def _iqm(each: Numbers, report: Reported) -> Numbers:
    """The interquartile mean in the place of the mean."""
    name = "success" if report.measure == "success" else "growth"
    ends = {"low": each.get("iqm_low"), "high": each.get("iqm_high")}
    return {name: each.get("iqm"), "after": None, **ends}


def _improvement(each: Numbers) -> str:
    if "improvement" not in each:
        return NOTHING
    ends = _ends(each, "improvement_low", "improvement_high")
    return f"{percent(each['improvement'])} {ends}".removesuffix(f" {NOTHING}")


def _ratios(summary: Numbers, report: Reported) -> Table:
    rows = [
        (
            name.replace("_", " "),
            f"{which.slow} ÷ {which.fast}",
            f"{which.of.replace('_', ' ')} to {percent(which.success)}",
            when({**each, "reached": 1, "of": 1}, lambda x: f"{x:.2f}×"),
            str(len(each["pairs"])),
            " ÷ ".join(value(each["before"][side], report) for side in ("slow", "fast")),
        )
        for name, each in summary["ratios"].items()
        for which in [report.ratios[name]]
    ]
    return Table("Ratios", ("ratio", "of", "in", "median", "pairs", "before"), rows)


def _verdicts(summary: Numbers, report: Reported) -> Table:
    unit = 100.0 if report.measure == "success" else 1.0
    rows = [
        (
            f"{each['method']} – {each['reference']}",
            NOTHING if each["difference"] is None else f"{unit * each['difference']:+.1f} points",
            str(each["seeds"]),
            _verdict(each),
        )
        for each in summary["sequential"]
    ]
    level = percent(report.sequential.level)
    title = f"Sequential test, level {level} for all pairs of the suite together"
    return Table(title, ("pair", "difference", "seeds", "verdict"), rows)


def _verdict(each: Numbers) -> str:
    """It, with the seeds that are needed where more are."""
    following = ", ".join(map(str, each["next"]))
    return f"{each['verdict']}: {following}" if following else each["verdict"]


def _pairs(summary: Numbers) -> Iterator[tuple[str, str, Numbers]]:
    for task, methods in summary["tasks"].items():
        for method, each in methods.items():
            yield task, method, each


def remarks(summary: Numbers) -> Iterator[str]:
    """What must be known besides: cells that are missing or left out, runs not made alike."""
    if summary["missing"]:
        yield f"missing, {len(summary['missing'])}: {'; '.join(summary['missing'])}"
    if summary["stale"]:
        names = "; ".join(summary["stale"])
        yield f"left out, since kept under other settings (--redo runs them again): {names}"
    machines, commits = (summary["made"][name] for name in ("machines", "commits"))
    if len(machines) > 1:
        groups = _groups(machines, "on")
        yield f"seconds are not comparable, since runs were not made alike: {groups}"
    elif machines:
        yield f"run on {next(iter(machines))}"
    if len(commits) > 1:
        yield f"cells were made by different commits: {_groups(commits, 'by')}"
    elif commits:
        yield f"made by {next(iter(commits))}"
    if interrupted := summary["made"]["interrupted"]:
        names = "; ".join(interrupted)
        yield f"gone on with after an interruption, {len(interrupted)}: {names}"
    if summary["versions"]:
        yield f"with {'; '.join(summary['versions'])}"


def _groups(cells: Mapping[str, list[str]], word: str) -> str:
    """How many cells there are of each kind, and which, but for the most usual one."""
    most = max(cells, key=lambda name: len(cells[name]))
    parts = [
        f"{len(found)} {word} {name}" + ("" if name == most else f" ({', '.join(found)})")
        for name, found in cells.items()
    ]
    return "; ".join(parts)


def value(score: float | None, report: Reported) -> str:
    """A success rate or a return."""
    return percent(score) if report.measure == "success" else number(score)


def percent(share: float | None) -> str:
    """A share in percent."""
    return NOTHING if share is None else f"{100 * share:.1f} %"


def number(amount: float | None) -> str:
    """Three digits, with k and M for thousands and millions."""
    if amount is None:
        return NOTHING
    for size, unit in ((1e6, " M"), (1e3, " k")):
        if abs(amount) >= size:
            return f"{amount / size:.3g}{unit}"
    return f"{amount:.3g}"


def when(time: Numbers, show: Any) -> str:
    """A median; ``>`` or ``≤`` where it is but a bound, and how many runs got there if not all."""
    if time["median"] is None:
        return NOTHING
    bound = "> " if time["at_least"] else "≤ " if time["at_most"] else ""
    text = f"{bound}{show(time['median'])}"
    return text if time["reached"] == time["of"] else f"{text} ({time['reached']}/{time['of']})"


def _ends(each: Numbers, low: str, high: str) -> str:
    if each.get(low) is None:
        return NOTHING
    return f"[{100 * each[low]:.1f}, {100 * each[high]:.1f}]"
