"""``robo-rl run``: runs an experiment's stages, all or up to one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from robo_rl.cli.output import Json
from robo_rl.cli.stages import RUNS, Name, Out, Overrides, execute


def run(
    experiment: Name,
    overrides: Overrides = None,
    out: Out = RUNS,
    json_file: Json = None,
    until: Annotated[str | None, typer.Option(help="Last stage to run; all if left out.")] = None,
) -> None:
    """Run an experiment's stages with their gates; completed stages are not repeated."""
    execute(experiment, overrides, out, json_file, until)


def up_to(stage: str) -> Callable[..., None]:
    """Return the command that runs an experiment up to a stage."""

    def run(
        experiment: Name, overrides: Overrides = None, out: Out = RUNS, json_file: Json = None
    ) -> None:
        execute(experiment, overrides, out, json_file, until=stage)

    return run
