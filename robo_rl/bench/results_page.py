"""Writes the results page: the tables and curves of all suites, from the kept cells."""

from __future__ import annotations

import errno
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from robo_rl.bench.reporting.plot import figure
from robo_rl.bench.reporting.remarks import remarks
from robo_rl.bench.reporting.table import Table
from robo_rl.bench.results.time_to_threshold import AXES
from robo_rl.bench.runner.suite_runner import SuiteRunner
from robo_rl.bench.suite.curves import Point
from robo_rl.core.atomic_files import make_directory, write_file
from robo_rl.core.errors import CheckpointError

FIGURES = "figures"

_SEEDS = 3
"""With fewer seeds a method cannot be assessed (Agarwal et al. 2021)."""

_HEAD = """# Results

Every table and curve on this page comes from the files under `benchmarks/results/`, one a run:

    robo-rl bench --page docs/results/index.md

The command above each table makes its files. `robo-rl bench SUITE` runs missing cells and resumes
after an interruption; `robo-rl bench all` does so for all suites. `--results runs/results` repeats
a kept cell in another folder, and `--dry-run` prints the expected time. The column `min a run` has
the measured time.

| term | meaning |
|---|---|
| default | the suite's experiment without any method; `robo-rl bench SUITE --task T --method M \
--seeds S --dry-run` prints the config of a cell |
| success | success rate of the final policy under its evaluation sampler, on start states outside \
training. All seeds share these states, so differences are of runs and not of starts |
| before, one step | the cloned policy and the distilled student on the same start states |
| interval | 95 %, Student's over seeds; over several tasks with Welch's and Satterthwaite's \
degrees of freedom. For a success rate at least as wide as Wilson's of the distinct episodes; \
those that all seeds share count once |
| IQM | interquartile mean; its interval uses the spread of a stratified bootstrap, and is left \
out where the IQM equals the mean |
| better than | probability that a run beats one of the other method's (Agarwal et al. 2021); \
exact if all runs do, or none |
| steps, time to a rate | from the training curve under exploration noise, or from evaluations \
without it where the table says so: the success rate over the latest updates with `window` \
episodes |
| > and ≤ | lower bound, because too many runs ended first; upper bound, because runs reached the \
rate in their first full window or, without exploration, at their start |
| degraded | runs that end more than `degradation_threshold` (5 points) below an earlier part of \
their curve. A run that did not fall counts with a probability of at most 1 %. Runs whose \
episodes share starts in groups (GRPO) are not tested |
| rollbacks | restorations by the collapse guard in all runs |
| worse than before | runs that end below their initial policy: a success rate by more than \
`degradation_threshold`, a return by any amount. Runs that were \
ruined in their first block have not fallen, and the guard does not detect them |
| growth | (after − before) ÷ abs(before) of a run, and its mean |
| stopped early | runs that reached a stop criterion before their budget; they had less time to \
fall |
| ratio | of two runs of one task and seed; the interval is of the geometric mean, that of \
a score for the logarithms. Behind a > some slower runs ended before the rate: mean and interval \
are then of times restricted to the budget, and the whole times have a larger mean |
| sequential test | *different*, *cannot tell*, or the seeds that are still needed \
(`robo_rl/stats/sequential.py`; `--seeds` runs them). It covers all tasks and methods in planned \
groups of seeds, and stops before an incomplete group. *Cannot tell* does not mean equal |
| pilots | equally many settings of every method, run on tasks and seeds that are not reported. \
The setting with the highest mean final success is that of the reported runs. Among equals it is \
that with the largest area under the curve over env steps. With `select_by: area` the area comes \
first |
| all tasks | numbers over the seeds that every task has |
| revision | commits of robo-rl that made the cells of the row, in tables whose rows differ in \
them |

Three seeds of one task hardly distinguish methods: such intervals are wide for any comparison.

Time is that of collecting and updating. It excludes evaluation and saving. Stages that \
`prior_stages` names count as a whole, with their loading, evaluation and pictures. Times are \
comparable between runs under equal conditions. Cells at the
same time share the cores, and each has as many env workers as if it were alone, so their time
exceeds that of a single run.
"""


def write_page(path: Path, runners: Sequence[SuiteRunner]) -> None:
    """Write the page, and its figures in a folder beside it; remove those that only it had before.

    Args:
        path: The Markdown file.
        runners: The suites. Suites without kept cells are left out; those with too few seeds get no
            tables.

    Raises:
        CheckpointError: A file cannot be written.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "is a directory", str(path))
        before = path.read_text(errors="replace") if path.is_file() else ""
        files = page(path.name, runners)
        for name, text in files.items():
            file = path.parent / name
            make_directory(file.parent)
            write_file(file, text.encode())
        for name in obsolete_figures(before, files):
            (path.parent / name).unlink(missing_ok=True)
    except OSError as error:
        problem = f"cannot be written: {error.strerror or error}"
        raise CheckpointError(problem, where=error.filename) from error


def obsolete_figures(before: str, files: Collection[str]) -> list[str]:
    """Return the figures of a page's earlier text that are not among its files."""
    named = re.findall(rf"\]\(({FIGURES}/[\w.-]+\.svg)\)", before)
    return [name for name in dict.fromkeys(named) if name not in files]


def page(name: str, runners: Sequence[SuiteRunner]) -> dict[str, str]:
    """Return the files of the page: path relative to its folder → text."""
    sections, drawn = list[str](), dict[str, str]()
    for runner in runners:
        if runner.kept and not _tells(runner):
            sections.append(_too_early(runner))
        elif runner.kept:
            figures = {f"{FIGURES}/{figure}": text for figure, text in _figures(runner)}
            sections.append(_section(runner, list(figures)))
            drawn |= figures
    return {name: "\n".join([_HEAD, *sections])} | drawn


def _tells(runner: SuiteRunner) -> bool:
    """Return whether any task and method has enough seeds for a table."""
    seeds = Counter(key[:2] for key in runner.valid_records())
    return max(seeds.values(), default=0) >= min(_SEEDS, len(runner.plan.suite.seeds))


def _too_early(runner: SuiteRunner) -> str:
    lines = [
        f"## {runner.plan.name}",
        runner.plan.suite.description,
        f"    robo-rl bench {runner.plan.name}",
    ]
    stale = len(runner.stale())
    old = f" {stale} of them have other settings, and --redo runs them again." if stale else ""
    wanted = f"The tables appear once a task and a method have {_SEEDS} seeds."
    lines += [f"Finished runs: {len(runner.kept)}.{old} {wanted}"]
    return "\n\n".join(lines) + "\n"


def _section(runner: SuiteRunner, figures: Sequence[str]) -> str:
    summary, suite = runner.summary(), runner.plan.suite
    command = f"    robo-rl bench {runner.plan.name}"
    commands = [f"{command} --pilots", command] if suite.pilots else [command]
    lines = [f"## {runner.plan.name}", suite.description, "\n".join(commands)]
    lines += [_markdown(table) for table in runner.tables(summary)]
    lines += [f"![{Path(name).name}]({name})" for name in figures]
    lines += [suite.notes] if suite.notes else []
    lines += [f"{line[0].upper()}{line[1:]}." for line in remarks(summary)]
    return "\n\n".join(lines) + "\n"


def _figures(runner: SuiteRunner) -> Iterator[tuple[str, str]]:
    """Yield (file name, drawing): one per task, or for a single method one of all tasks."""
    suite = runner.plan.suite
    tasks, methods = list(suite.tasks), list(suite.methods)
    if len(methods) == 1:
        yield from _figure(runner, methods[0], {task: (task, methods[0]) for task in tasks})
        return
    for task in tasks:
        yield from _figure(runner, task, {method: (task, method) for method in methods})


def _figure(
    runner: SuiteRunner, title: str, lines: Mapping[str, tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Yield figures against env steps and against seconds, if there are curves.

    Args:
        runner: The suite.
        title: Title of the figure.
        lines: Name of a line → task and method.
    """
    found = {name: _curves(runner, *cell) for name, cell in lines.items()}
    shown = {name: seeds for name, seeds in found.items() if seeds}
    for axis in AXES if shown else ():
        report = runner.plan.suite.report
        when = "in training" if report.curve == "training" else "without exploration"
        drawn = figure(f"{title}: {report.measure} {when}", shown, axis, report)
        yield f"{runner.plan.name}-{title}-{axis}.svg", drawn


def _curves(runner: SuiteRunner, task: str, method: str) -> list[list[Point]]:
    """Return the curve of every seed in which an episode ended, which none does offline."""
    cells = [kept for key, kept in runner.valid_records().items() if key[:2] == (task, method)]
    curves = (kept.points(runner.plan.suite.report.curve) for kept in cells)
    return [points for points in curves if any(point.episodes for point in points)]


def _markdown(table: Table) -> str:
    rows = [table.header, tuple("---" for _ in table.header), *table.rows]
    body = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"**{table.title}**\n\n{body}"
