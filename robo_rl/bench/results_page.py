"""The page of results: every suite's tables and curves, out of what is kept and nothing else."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from robo_rl.bench.reporting.plot import figure
from robo_rl.bench.reporting.remarks import remarks
from robo_rl.bench.reporting.tables import Table
from robo_rl.bench.results.time_to_threshold import AXES
from robo_rl.bench.runner.suite_runner import SuiteRunner
from robo_rl.bench.suite.curves import Point
from robo_rl.core.atomic_files import make_directory, write_file
from robo_rl.core.errors import CheckpointError

FIGURES = "figures"

_SEEDS = 3
"""Fewer say nothing of a method (Agarwal et al. 2021)."""

_HEAD = """# Results

Every table and every curve on this page is made from the files under `benchmarks/results/`, one a
run, by

    robo-rl bench --page docs/results.md

and every such file by the command above its table. `robo-rl bench SUITE` runs what is missing and
goes on where it was stopped; `robo-rl bench all` does so for all suites. Where all is kept nothing
is missing: to make a figure anew, give it another folder, `--results runs/results`; how long that
takes `--dry-run` says, and the tables by `min a run`. **default** is the suite's experiment as its
file has it, without any method; `robo-rl bench SUITE --task T --method M --seeds S --dry-run`
prints a cell whole.

**Success** is that of the final policy under its evaluation sampler, on start states that no
training has seen; *before* is the cloned policy on the same ones, *one step* the distilled student.
All seeds are judged on the same start states, so what is said of them is of runs, not of starts.
Three seeds of one task hardly tell methods apart: such intervals are wide, whatever is compared.
**Intervals** are of 95 %, over seeds, and Student's, over several tasks with Welch's and
Satterthwaite's degrees of freedom; that of a success rate is no narrower than Wilson's of all
episodes together, that of an IQM is about the spread of a stratified bootstrap, and is left out
where the IQM leaves nothing out, so that it is the mean. **IQM** is the interquartile mean, *better
than* the probability that a run beats one of the other method's (Agarwal et al. 2021); where all
runs do, or none, its interval is exact: what few runs allow. **Steps and time to a rate** are taken
from the training curve, under exploration noise, or where it says so from evaluations on the way,
without it: the share of successes among the latest episodes, pooled over as many updates as the
suite's `window` of episodes takes. Time is that of collecting and updating; evaluating and saving
are left out, and so are the shared stages unless the suite's `clock` names them. It is comparable
between runs that were made alike: cells that run at once share the cores, and each has as many
workers for its envs as if it were alone, so it is not what a run takes by itself. `>` marks a lower
bound, since too many runs ended before they got there, `≤` an upper one, since they were there in
their first full window or, where exploration plays no part, when they began. **Fallen** are runs
that end truly more than 5 points (the suite's `fall`) below an earlier stretch of theirs, of those
that were long enough to tell: the bounds are such that one that did not fall counts with at most 1
%; **rollbacks**: how often the guard went back in all of them; runs that were ruined from their
first block on have not fallen, nor does the guard, which sees training episodes alone, find them:
they are among those **worse than before**, which end more than `fall` below the policy that they
began with. **Growth** is (after − before) ÷ |before| of a run, and its mean. **Stopped early** are
runs that ended before their budget because what they had learnt was enough; they had less time to
fall than others. A **ratio** is of two runs of one task and seed; the interval is of the geometric
mean, Student's of the logarithms. The **sequential test** says which seeds are needed yet
(`robo_rl/stats/sequential.py`); `--seeds` runs them. It looks at all tasks and methods of the
suite, in groups of seeds that were planned, and at none behind a group that is not complete. Where
all are there it is *different* or *cannot tell*, which is not to say equal. Numbers of **all
tasks** are of the seeds that every task has.
"""


def write_page(path: Path, desks: Sequence[SuiteRunner]) -> None:
    """Write the page, and the figures in a folder beside it.

    Args:
        path: The Markdown file.
        desks: The suites; those of which nothing is kept are left out, and there are no tables of
            those that have too few seeds.

    Raises:
        CheckpointError: Something cannot be written.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "is a directory", str(path))
        for name, text in page(path.name, desks).items():
            file = path.parent / name
            make_directory(file.parent)
            write_file(file, text.encode())
    except OSError as error:
        problem = f"cannot be written: {error.strerror or error}"
        raise CheckpointError(problem, where=error.filename) from error


def page(name: str, desks: Sequence[SuiteRunner]) -> dict[str, str]:
    """The page's files: path relative to its folder → text."""
    sections, drawn = list[str](), dict[str, str]()
    for desk in desks:
        if desk.kept and not _tells(desk):
            sections.append(_too_early(desk))
        elif desk.kept:
            figures = {f"{FIGURES}/{figure}": text for figure, text in _figures(desk)}
            sections.append(_section(desk, list(figures)))
            drawn |= figures
    return {name: "\n".join([_HEAD, *sections])} | drawn


def _tells(desk: SuiteRunner) -> bool:
    """Whether any task and method has the seeds that something can be said of."""
    seeds = Counter(key[:2] for key in desk.valid_records())
    return max(seeds.values(), default=0) >= min(_SEEDS, len(desk.plan.suite.seeds))


def _too_early(desk: SuiteRunner) -> str:
    lines = [
        f"## {desk.plan.name}",
        desk.plan.suite.description,
        f"    robo-rl bench {desk.plan.name}",
    ]
    lines += [f"{len(desk.kept)} runs are kept, and {_SEEDS} seeds of no task and method yet."]
    return "\n\n".join(lines) + "\n"


def _section(desk: SuiteRunner, figures: Sequence[str]) -> str:
    summary, suite = desk.summary(), desk.plan.suite
    lines = [f"## {desk.plan.name}", suite.description, f"    robo-rl bench {desk.plan.name}"]
    lines += [_markdown(table) for table in desk.tables(summary)]
    lines += [f"![{Path(name).name}]({name})" for name in figures]
    lines += [suite.notes] if suite.notes else []
    lines += [f"{line[0].upper()}{line[1:]}." for line in remarks(summary)]
    return "\n\n".join(lines) + "\n"


def _figures(desk: SuiteRunner) -> Iterator[tuple[str, str]]:
    """(File name, drawing): of every task a line a method; of a single method a line a task."""
    suite = desk.plan.suite
    tasks, methods = list(suite.tasks), list(suite.methods)
    if len(methods) == 1:
        yield from _figure(desk, methods[0], {task: (task, methods[0]) for task in tasks})
        return
    for task in tasks:
        yield from _figure(desk, task, {method: (task, method) for method in methods})


def _figure(
    desk: SuiteRunner, title: str, lines: Mapping[str, tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Against env steps and against seconds, if there are any curves.

    Args:
        desk: The suite.
        title: Of the figure.
        lines: Name of a line → task and method.
    """
    found = {name: _curves(desk, *cell) for name, cell in lines.items()}
    shown = {name: seeds for name, seeds in found.items() if seeds}
    for axis in AXES if shown else ():
        report = desk.plan.suite.report
        when = "in training" if report.curve == "training" else "without exploration"
        drawn = figure(f"{title}: {report.measure} {when}", shown, axis, report)
        yield f"{desk.plan.name}-{title}-{axis}.svg", drawn


def _curves(desk: SuiteRunner, task: str, method: str) -> list[list[Point]]:
    """Of every seed that has one."""
    cells = [kept for key, kept in desk.valid_records().items() if key[:2] == (task, method)]
    curves = (kept.points(desk.plan.suite.report.curve) for kept in cells)
    return [points for points in curves if points]


def _markdown(table: Table) -> str:
    rows = [table.header, tuple("---" for _ in table.header), *table.rows]
    body = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"**{table.title}**\n\n{body}"
