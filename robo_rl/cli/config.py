"""``robo-rl config``: prints a composed experiment."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from robo_rl.cli.output import format_table
from robo_rl.cli.stages import Name, Overrides

if TYPE_CHECKING:
    from robo_rl.train.pipeline.experiment import Experiment


def run(
    experiment: Name,
    overrides: Overrides = None,
    explain: Annotated[bool, typer.Option("--explain", help="Where each value is from.")] = False,
    check: Annotated[bool, typer.Option(help="Validate, and fill in defaults.")] = True,
) -> None:
    """Print a composed experiment, optionally with the origin of each value."""
    from robo_rl.config import models as config

    tree = config.compose(experiment, overrides or [])
    checked = config.validate(tree, _model()) if check else None
    if explain:
        rows = config.explain(tree, checked)
        typer.echo(format_table(list(_lists_in_one_row(rows)), ("key", "value", "from")))
    else:
        typer.echo(config.to_yaml(config.dump_whole(checked) if checked else tree.values), nl=False)
    if checked is not None:
        _examine(checked)


def _examine(experiment: Experiment) -> None:
    """Print warnings of weak gates and slow settings, and check the files of the stages."""
    from robo_rl.train.pipeline.preflight.inputs import check_inputs
    from robo_rl.train.pipeline.preflight.run_warnings import emit_run_warnings

    emit_run_warnings(experiment, experiment.stages)
    check_inputs(experiment.stages, experiment)


def _model():
    from robo_rl.train.pipeline.experiment import Experiment

    return Experiment


def _lists_in_one_row(rows: list[tuple[str, object, str]]) -> Iterator[tuple[str, str, str]]:
    """Join list elements of one origin, ``spawn_low.0`` and so on, into one row."""

    def place(row: tuple[str, object, str]) -> tuple[str, str]:
        parent, _, last = row[0].rpartition(".")
        return (parent if last.isdigit() else row[0]), row[2]

    for (key, origin), found in groupby(rows, key=place):
        items = list(found)
        values = [_shown(value) for _, value, _ in items]
        yield key, values[0] if items[0][0] == key else f"[{', '.join(values)}]", _shown(origin)


def _shown(value: object) -> str:
    """Return the value as YAML, truncated to fit the table."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 50 else text[:49] + "…"
