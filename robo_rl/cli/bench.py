"""``robo-rl bench``: a suite of tasks × methods × seeds, run cell by cell, and its tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robo_rl.cli.show import table
from robo_rl.cli.stages import Json, Overrides, write_json
from robo_rl.errors import ConfigError

if TYPE_CHECKING:
    from robo_rl.train.bench.desk import Desk, Folders

RUNS, RESULTS = Path("runs/bench"), Path("benchmarks/results")
ALL = "all"

_SUITE = typer.Argument(metavar="SUITE", help="Name or file; 'all' of them; nothing lists them.")


def run(
    suite: Annotated[str, _SUITE] = "",
    overrides: Overrides = None,
    task: Annotated[str, typer.Option(help="Only these: push-v3,reach-v3")] = "",
    method: Annotated[str, typer.Option(help="Only these: default,dppo")] = "",
    seeds: Annotated[str, typer.Option(help="Only these: 0,1")] = "",
    jobs: Annotated[int, typer.Option(min=0, help="Cells at once; 0: as the suite says.")] = 0,
    redo: Annotated[
        bool, typer.Option("--redo", help="Run again what was kept under other settings.")
    ] = (False),
    listed: Annotated[bool, typer.Option("--list", help="List the suites.")] = False,
    summary: Annotated[
        bool, typer.Option("--summary", help="Run nothing; tables of what is kept.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Run nothing; show the cells.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder of the runs.")] = RUNS,
    results: Annotated[Path, typer.Option(help="Folder of the results that are kept.")] = RESULTS,
    page: Annotated[
        Path | None, typer.Option(help="Write the page of all results; nothing is run.")
    ] = (None),
    json_file: Json = None,
) -> None:
    """Run what is missing of a suite and print its tables; run it again to continue."""
    from robo_rl.train.bench.desk import Desk, Folders

    if page is not None:
        _write_page(page, Folders(out, results))
        return
    if listed or not suite:
        typer.echo(_suites(results))
        return
    found: dict[str, Any] = {}
    complete = True
    for name in _names(suite):
        desk = Desk(name, overrides or [], Folders(out, results))
        desk.choose(_split(task), _split(method), _numbers(seeds))
        if dry_run:
            typer.echo(_cells(desk, jobs, redo=redo))
            continue
        complete &= summary or _complete(desk, jobs, redo=redo)
        found[name] = desk.summary()
        _print(desk, found[name])
    write_json(json_file, found if suite == ALL else found.get(suite, {}))
    raise typer.Exit(0 if complete else 1)


def _complete(desk: Desk, jobs: int, *, redo: bool) -> bool:
    """Run what is missing; whether nothing went wrong."""
    sitting = desk.run(jobs, redo=redo)
    for label, problem in sitting.failed.items():
        typer.echo(f"failed: {label}: {problem}", err=True)
    return not sitting.failed


def _write_page(path: Path, folders: Folders) -> None:
    from robo_rl.train.bench.desk import Desk
    from robo_rl.train.bench.page import write_page
    from robo_rl.train.bench.plan import names

    write_page(path, [Desk(name, [], folders) for name in names()])
    typer.echo(f"written: {path}")


def _names(suite: str) -> list[str]:
    from robo_rl.train.bench.plan import names

    return names() if suite == ALL else [suite]


def _suites(results: Path) -> str:
    """All suites, what they are about, and how many of their cells are kept."""
    from robo_rl.train.bench.plan import load_plan, names
    from robo_rl.train.bench.suite import keys

    rows: list[tuple[str, str, str]] = []
    for name in names():
        suite = load_plan(name).suite
        kept = len(list((results / name).glob("*/*/*.json")))
        rows.append((name, f"{kept} of {len(keys(suite))}", suite.about))
    return table(rows, ("suite", "kept", "about")) if rows else "no suites in configs/suite"


def _cells(desk: Desk, jobs: int, *, redo: bool) -> str:
    """What would be run, and how long it would take."""
    from robo_rl.train.logger import duration

    to_run = desk.to_run(redo=redo)
    rows: list[tuple[str, ...]] = []
    for key, state in desk.states().items():
        seconds = desk.estimate.seconds(key) if key in to_run else None
        took = "" if seconds is None else duration(seconds)
        rows.append((key.task, key.method, str(key.seed), str(state), took))
    total = desk.estimate.total(to_run, jobs or desk.plan.suite.jobs)
    left = "nobody knows how long: none is kept" if total is None else duration(total)
    shown = table(rows, ("task", "method", "seed", "state", "takes about"))
    return f"{shown}\n{len(to_run)} of {len(rows)} to run; {left}"


def _print(desk: Desk, summary: dict[str, Any]) -> None:
    from robo_rl.train.bench.tables import remarks

    for each in desk.tables(summary):
        typer.echo(f"{each.title}\n\n{table(each.rows, each.header)}\n")
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
