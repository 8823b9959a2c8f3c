"""``robo-rl env``: creates interpreters for simulators with conflicting dependencies."""

from __future__ import annotations

from typing import Annotated

import typer

from robo_rl.cli.output import format_table

app = typer.Typer(no_args_is_help=True)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="robosuite, mjlab or isaaclab.")],
    python: Annotated[str, typer.Option(help="The Python to make it from.")] = "",
) -> None:
    """Create an interpreter with tested versions; return at once if it exists."""
    from robo_rl.env.remote import interpreters

    typer.echo(interpreters.create_interpreter(name, python, typer.echo))


@app.command("list")
def list_() -> None:
    """List the available interpreters and the folders of the existing ones."""
    from robo_rl.env.remote import interpreters

    rows = [
        (name, str(interpreters.find_interpreter(name) or f"robo-rl env create {name}"))
        for name in sorted(interpreters.RECIPES)
    ]
    typer.echo(format_table(rows, ("simulator", "interpreter")))
