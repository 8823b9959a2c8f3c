"""``robo-rl bench``: runs a suite of tasks × methods × seeds, and prints its tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robo_rl.cli.output import Json, format_table, write_json
from robo_rl.cli.stages import Overrides
from robo_rl.core.errors import ConfigError

if TYPE_CHECKING:
    from robo_rl.bench.runner.suite_runner import BenchFolders, SuiteRunner

RUNS, RESULTS = Path("runs/bench"), Path("benchmarks/results")
ALL = "all"
_PART = {"SUITE", "KEY=VALUE", "--task", "--method", "--seeds", "--pilots"}
TAKES = {
    "": {*_PART, "--json", "--jobs", "--redo"},
    "--dry-run": {*_PART, "--json", "--jobs", "--redo"},
    "--summary": {*_PART, "--json"},
    "--list": set[str](),
    "--page": set[str](),
}
"""Options and arguments that each mode of the verb accepts; the empty mode runs the suite."""

_SUITE = typer.Argument(
    metavar="SUITE",
    help="Name or file of a suite; 'all' runs every suite; without it the suites are listed.",
)


def run(
    suite: Annotated[str, _SUITE] = "",
    overrides: Overrides = None,
    task: Annotated[str, typer.Option(help="Only these: push-v3,reach-v3")] = "",
    method: Annotated[str, typer.Option(help="Only these: default,dppo")] = "",
    seeds: Annotated[str, typer.Option(help="Only these, further ones too: 1,4")] = "",
    jobs: Annotated[int, typer.Option(min=0, help="Cells at once; 0: as the suite says.")] = 0,
    pilots: Annotated[
        bool, typer.Option("--pilots", help="The runs that choose the methods' settings.")
    ] = (False),
    redo: Annotated[
        bool, typer.Option("--redo", help="Run cells again that have other settings or defaults.")
    ] = (False),
    listed: Annotated[bool, typer.Option("--list", help="List the suites.")] = False,
    summary: Annotated[
        bool, typer.Option("--summary", help="Run nothing; print the tables of finished cells.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Run nothing; list the cells, or print the config of one."),
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder of the runs.")] = RUNS,
    results: Annotated[Path, typer.Option(help="Folder of the results.")] = RESULTS,
    page: Annotated[
        Path | None, typer.Option(help="Run nothing; write the page of all results.")
    ] = (None),
    json_file: Json = None,
) -> None:
    """Run the missing cells of a suite and print its tables; run it again to continue."""
    from robo_rl.bench.runner.suite_runner import BenchFolders

    modes = {"--page": page, "--list": listed, "--summary": summary, "--dry-run": dry_run}
    given = {
        "SUITE": suite, "--json": json_file, "--task": task, "--method": method, "--seeds": seeds,
        "--jobs": jobs, "--redo": redo, "--pilots": pilots, "KEY=VALUE": overrides,
    }  # fmt: skip
    chosen = [name for name, of_it in modes.items() if of_it]
    _demand_one(chosen, [name for name, of_it in given.items() if of_it])
    if (summary or dry_run) and not suite:
        hint = "name a suite, or all; --list lists them"
        raise ConfigError("needs a suite", where=f"bench {chosen[0]}", hint=hint)
    if pilots and seeds:
        raise ConfigError("does not go with it", where="bench --pilots", found="--seeds")
    folders = BenchFolders(out, results, RESULTS)
    if page is not None:
        _write_page(page, folders)
    elif listed or not suite:
        typer.echo(_suites(results))
    else:
        runners = _runners(suite, overrides or [], folders, pilots=pilots)
        for runner in runners:
            runner.select(_split(task), _split(method), _numbers(seeds))
        if dry_run:
            found, complete = _show_plan(runners, results, jobs, redo=redo), True
        elif summary:
            found, complete = _show_summary(runners, results), True
        else:
            found, complete = _run_cells(runners, results, jobs, redo=redo)
        write_json(json_file, found if suite == ALL else next(iter(found.values())))
        raise typer.Exit(0 if complete else 1)


def _show_plan(
    runners: list[SuiteRunner], results: Path, jobs: int, *, redo: bool
) -> dict[str, Any]:
    """Print what a run would do, and why it would be refused; return the numbers by suite."""
    if (refusal := _not_published(runners, results) or _not_piloted(runners)) is not None:
        typer.echo(f"would be refused: {refusal}", err=True)
    return _looked_ahead(runners, jobs, redo=redo)


def _show_summary(runners: list[SuiteRunner], results: Path) -> dict[str, Any]:
    """Print the tables of finished cells; return their numbers by suite."""
    if (refusal := _not_published(runners, results)) is not None:
        raise refusal
    _demand_there(results)
    return {runner.plan.name: _print_tables(runner) for runner in runners}


def _run_cells(
    runners: list[SuiteRunner], results: Path, jobs: int, *, redo: bool
) -> tuple[dict[str, Any], bool]:
    """Run the missing cells and print the tables; return the numbers, and whether all is there."""
    if (refusal := _not_published(runners, results) or _not_piloted(runners)) is not None:
        raise refusal
    found, complete = dict[str, Any](), True
    for runner in runners:
        complete &= _complete(runner, jobs, redo=redo)
        found[runner.plan.name] = _print_tables(runner)
    return found, complete


def _print_tables(runner: SuiteRunner) -> dict[str, Any]:
    """Print the tables of a suite; return its numbers."""
    found = runner.summary()
    _print(runner, found)
    return found


def _runners(
    suite: str, overrides: list[str], folders: BenchFolders, *, pilots: bool
) -> list[SuiteRunner]:
    """Return the suites, or their pilots; of all suites, those that have pilots."""
    from robo_rl.bench.runner.suite_runner import SuiteRunner
    from robo_rl.bench.suite.suite_file import load_plan

    names = _names(suite)
    if pilots and suite == ALL:
        names = [name for name in names if load_plan(name).suite.pilots is not None]
    return [SuiteRunner(name, overrides, folders, pilots=pilots) for name in names]


def _not_piloted(runners: list[SuiteRunner]) -> ConfigError | None:
    """Return the error for the first suite without the choices of its pilots; None if allowed."""
    return next((found for runner in runners if (found := runner.missing_pilots())), None)


def _demand_one(modes: list[str], given: list[str]) -> None:
    """Check that only one mode is given, and that it accepts all given options."""
    if len(modes) > 1:
        raise ConfigError("do not go together", where=" and ".join(modes))
    mode = modes[0] if modes else "" if "SUITE" in given else "--list"
    for name in given:
        if name not in TAKES[mode]:
            hint = "name a suite" if mode == "--list" else "leave it out"
            raise ConfigError("does not go with it", where=f"bench {mode}", found=name, hint=hint)


def _not_published(runners: list[SuiteRunner], results: Path) -> ConfigError | None:
    """Return the error for changed suites in the published results; None if allowed."""
    changed = [key for runner in runners for key in runner.plan.changed]
    if not changed or results.resolve() != RESULTS.resolve():
        return None
    return ConfigError(
        "is for the suites as their files say",
        where=results,
        expected="overrides of suite.seeds and suite.jobs alone",
        found=", ".join(dict.fromkeys(changed)),
        hint="name another folder, such as --results runs/results",
    )


def _demand_there(results: Path) -> None:
    """Check that the folder of results exists."""
    if not results.is_dir():
        hint = "run the command in the checkout, or name a folder of results"
        raise ConfigError("no such folder", where="--results", found=results.resolve(), hint=hint)


def _complete(runner: SuiteRunner, jobs: int, *, redo: bool) -> bool:
    """Run the missing cells; return whether none failed and none is stale."""
    sitting = runner.run(jobs, redo=redo)
    for label, problem in sitting.failed.items():
        typer.echo(f"failed: {label}: {problem}", err=True)
    stale = runner.stale()
    if stale:
        problem = f"cells left out, since of other settings or another world: {len(stale)}"
        hint = f"`{runner.plan.command} --redo` runs them again"
        typer.echo(f"{runner.plan.name}: {problem}; {hint}", err=True)
    return not (sitting.failed or stale)


def _looked_ahead(runners: list[SuiteRunner], jobs: int, *, redo: bool) -> dict[str, Any]:
    """Print the planned cells, and the full config of a single one; return them for JSON."""
    from robo_rl.bench.runner.forecast import forecast_suite, forecast_total
    from robo_rl.config.models import to_yaml

    found = [forecast_suite(runner, jobs, redo=redo) for runner in runners]
    for each in found:
        shown = format_table(each.rows, ("task", "method", "seed", "state", "takes about"))
        title = f"\n{each.suite}\n\n" if len(runners) > 1 else ""
        typer.echo(f"{title}{shown}\n{each.line()}")
    if len(runners) > 1:
        typer.echo(f"\n{forecast_total(found)}")
    elif found and len(found[0].cells) == 1:
        cell = runners[0].cells[found[0].cells[0].key]
        typer.echo(f"\n{to_yaml(cell.experiment)}", nl=False)
    return {each.suite: each.numbers() for each in found}


def _write_page(path: Path, folders: BenchFolders) -> None:
    from robo_rl.bench.results_page import write_page
    from robo_rl.bench.runner.suite_runner import SuiteRunner
    from robo_rl.bench.suite.suite_file import suite_names

    _demand_there(folders.results)
    runners = [SuiteRunner(name, [], folders) for name in suite_names()]
    if not any(runner.kept for runner in runners):
        hint = "name the folder of the kept cells with --results"
        raise ConfigError("holds no kept cell", where=folders.results.resolve(), hint=hint)
    write_page(path, runners)
    typer.echo(f"written: {path}")


def _names(suite: str) -> list[str]:
    from robo_rl.bench.suite.suite_file import suite_names

    return suite_names() if suite == ALL else [suite]


def _suites(results: Path) -> str:
    """Return a table of all suites with their description and their number of kept cells."""
    from robo_rl.bench.runner.forecast import suite_row
    from robo_rl.bench.suite.suite_file import suite_names

    rows = [suite_row(name, results) for name in suite_names()]
    header = ("suite", "kept", "further seeds", "stale", "about")
    return format_table(rows, header) if rows else "no suites in configs/suite"


def _print(runner: SuiteRunner, summary: dict[str, Any]) -> None:
    from robo_rl.bench.reporting.remarks import remarks

    for each in runner.tables(summary):
        typer.echo(f"{each.title}\n\n{format_table(each.rows, each.header)}\n")
    for line in remarks(summary):
        typer.echo(line)


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in _split(text)]
    except ValueError:
        raise ConfigError(
            "not a list of seeds", where="--seeds", expected="0,1", found=text
        ) from None
