"""``robo-rl eval``: evaluates a stage's policy or an export bundle, with an interval."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from robo_rl.cli.json_file import Json, write_json
from robo_rl.cli.stages import format_rate


def run(
    path: Annotated[Path, typer.Argument(help="A stage's folder, or a bundle.")],
    episodes: Annotated[int | None, typer.Option(min=1, help="As in the run if left out.")] = None,
    seed: Annotated[int | None, typer.Option(help="As in the run if left out.")] = None,
    json_file: Json = None,
) -> None:
    """Evaluate with the evaluation protocol of the policy's own run."""
    from robo_rl.train.pipeline.reevaluate import evaluate_path

    result = evaluate_path(path, episodes=episodes, seed=seed)
    numbers = result.report_numbers()[result.measure]
    typer.echo(f"{result.measure} {format_rate(numbers)}, protocol {numbers['protocol']}")
    write_json(json_file, numbers)
