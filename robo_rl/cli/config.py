"""``robo-rl config``: an experiment as it will run."""

from __future__ import annotations

from typing import Annotated

import typer

from robo_rl.cli.show import table
from robo_rl.cli.stages import Name, Overrides


def run(
    experiment: Name,
    overrides: Overrides = None,
    explain: Annotated[bool, typer.Option("--explain", help="Where each value is from.")] = False,
    check: Annotated[bool, typer.Option(help="Validate, and fill in defaults.")] = True,
) -> None:
    """Print a composed experiment; say where each value comes from."""
    from robo_rl import config

    tree = config.compose(experiment, overrides or [])
    checked = config.validate(tree, _model()) if check else None
    if explain:
        rows = config.explain(tree, checked)
        typer.echo(table([(key, _shown(value), origin) for key, value, origin in rows]))
    else:
        typer.echo(config.to_yaml(checked or tree.values), nl=False)


def _model():
    from robo_rl.train.stage import Experiment

    return Experiment


def _shown(value: object) -> str:
    text = str(value)
    return text if len(text) <= 50 else text[:49] + "…"
