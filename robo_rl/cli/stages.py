"""Shared code of the verbs that run an experiment: arguments, and the output of stages."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from robo_rl.cli.output import format_table, json_beside, write_json
from robo_rl.core.errors import GateError

Name = Annotated[str, typer.Argument(metavar="EXPERIMENT", help="Name or file of a config.")]
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Such as stages.bc.steps=500.")
]
Out = Annotated[Path, typer.Option(help="Folder of the runs; this one is OUT/<its name>.")]

RUNS = Path("runs")


def execute(
    experiment: str,
    overrides: list[str] | None,
    out: Path,
    json_file: Path | None,
    until: str | None,
) -> None:
    """Run an experiment's stages up to one; print a line per stage, and the gates' details.

    If a gate does not pass, ``json_file`` holds the stages that ran.

    Raises:
        RoboRlError: See ``robo_rl.train.pipeline.run.run_experiment``.
    """
    with json_of_failed_gate(json_file) as done:
        result = run_until(experiment, overrides or [], out, until, done.update)
    if result is None:
        return
    stages = [_row(stage) for stage in result["stages"]]
    typer.echo(format_table(stages, ("stage", "gate", "measured", "s")))
    for stage in result["stages"]:
        for said in _said(stage):
            typer.echo(f"{stage['stage']}: {said}")
    typer.echo(f"in {result['directory']}")
    write_json(json_file, result)


@contextmanager
def json_of_failed_gate(json_file: Path | None) -> Generator[dict[str, Any]]:
    """Yield a mapping for the stages that ran, which the file holds if a gate does not pass.

    Raises:
        ConfigError: The file cannot be written.
    """
    done: dict[str, Any] = {}
    try:
        yield done
    except (GateError, SystemExit):  # the latter from a process of several
        with json_beside(json_file if done else None, done):
            raise


def run_until(
    experiment: str,
    overrides: list[str],
    out: Path,
    until: str | None = None,
    on_stage_end: Callable[[dict[str, Any]], None] = lambda summary: None,
) -> dict[str, Any] | None:
    """Run an experiment in its configured number of processes.

    Args:
        experiment: Name or file of a config.
        overrides: ``key=value``.
        out: Directory of the runs.
        until: Last stage to run; None for all.
        on_stage_end: Called after each stage, see ``run_experiment``.

    Returns:
        The result; None in a process other than the first.

    Raises:
        RoboRlError: See ``robo_rl.train.pipeline.run.run_experiment``.
    """
    from robo_rl.train.pipeline.processes.launch import num_processes, run_processes
    from robo_rl.train.pipeline.run import run_experiment

    number = num_processes(experiment, overrides, until)
    if number > 1:
        last = [] if until is None else ["--until", until]
        try:
            run_processes(number, ["run", experiment, *overrides, "--out", str(out), *last])
        except SystemExit as end:
            if end.code == GateError.status:
                _tell_failed(experiment, overrides, out, on_stage_end)
            raise
    return (
        run_experiment(experiment, overrides, out, until=until, on_stage_end=on_stage_end) or None
    )


def _tell_failed(
    experiment: str, overrides: list[str], out: Path, on_stage_end: Callable[[dict[str, Any]], None]
) -> None:
    """Report the stages of a run that other processes made, if it ended at a gate."""
    from robo_rl.train.pipeline.run import failed_run

    if (found := failed_run(experiment, overrides, out)) is not None:
        on_stage_end(found)


def format_rate(measured: Mapping[str, Any] | None) -> str:
    """Format a rate or a mean return with its 95 % interval and sample size."""
    if not measured:
        return "–"
    is_rate = measured.get("unit", "1") == "1"
    value, low, high = (measured[key] for key in ("value", "low", "high"))
    shown = f"{100 * value:.1f} %" if is_rate else f"{value:.4g}"
    if low is not None:  # one sample has no interval
        ends = (f"{100 * end:.1f}" if is_rate else f"{end:.4g}" for end in (low, high))
        shown += f" [{', '.join(ends)}]"
    return f"{shown} of {measured['n']}"


def _row(stage: Mapping[str, Any]) -> tuple[str, str, str, str]:
    return (
        stage["stage"],
        stage["status"],
        format_rate(stage["numbers"].get("success") or stage["numbers"].get("return")),
        f"{stage['seconds']:.0f}",
    )


def _said(stage: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines on a stage's estimates and its gate."""
    if isinstance(value := stage["numbers"].get("value"), Mapping):
        yield f"estimated {format_rate(value)}"
    if stage.get("world") == {}:
        yield "the world of the stage is not recorded and cannot be compared with the present one"
    if differs := stage["numbers"].get("world_changes"):
        yield f"what it takes up was made in another world: {differs}"
    if (gate := stage.get("gate")) is not None:
        yield gate["detail"] + (f"; waived: {gate['waiver']}" if gate["waiver"] else "")
    for before in stage.get("earlier", ()):
        of = f"{before['eval']['episodes']} episodes from seed {before['eval']['seed']}"
        yield f"earlier, of {of}: {before['gate']['detail']}"
