"""``robo-rl eval``: evaluates a stage's policy or an export bundle, with an interval."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from robo_rl.cli.output import Json, write_json
from robo_rl.cli.stages import format_rate

TASK = "success/"

Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Other settings of task and env, and the device."),
]


def run(
    path: Annotated[Path, typer.Argument(help="A stage's folder, or a bundle.")],
    overrides: Overrides = None,
    episodes: Annotated[int | None, typer.Option(min=1, help="As in the run if left out.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="As in the run if left out.")] = None,
    json_file: Json = None,
) -> None:
    """Evaluate with the protocol of the policy's own run, in its world or in a variant of it."""
    from robo_rl.config.compose import overlay, resolve_tree
    from robo_rl.train.pipeline.reevaluate import evaluate_path

    changes = dict(resolve_tree(overlay(overrides or [])).values)
    device = changes.pop("device", None)
    result = evaluate_path(
        path,
        episodes=episodes,
        seed=seed,
        device=None if device is None else str(device),
        world_changes=changes,
    )
    found = result.report_numbers()
    numbers = found[result.measure]
    write_json(json_file, {**numbers, "numbers": found})
    typer.echo(f"{result.measure} {format_rate(numbers)}, protocol {numbers['protocol']}")
    for name, part in found.items():
        if name.startswith(TASK):
            typer.echo(f"  {name.removeprefix(TASK)} {format_rate(part)}")
