"""``robo-rl list``: lists the names that a config can use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from robo_rl.cli.output import format_table
from robo_rl.core.errors import ConfigError
from robo_rl.core.suggestions import did_you_mean


def run(
    kind: Annotated[
        str, typer.Argument(help="tasks, robots, policies … or configs; all if left out.")
    ] = "",
) -> None:
    """List the registered components with their distribution, and the configs."""
    from robo_rl.config.registry import kinds, names, provider

    known = [*kinds(), "configs"]
    if kind and kind not in known:
        raise ConfigError(f"unknown kind '{kind}'", hint=did_you_mean(kind, known))
    shown = [kind] if kind else known
    rows = [
        (group, name, *provider(group, name))
        for group in shown
        for name in (names(group) if group != "configs" else [])
    ]
    rows += _configs() if "configs" in shown else []
    typer.echo(format_table(rows, ("kind", "name", "from", "where")))


def _configs() -> list[tuple[str, str, str, str]]:
    from robo_rl.config.search_path import available_configs, plugin_configs

    plugins = [(each.folder, each.distribution) for each in plugin_configs() if each.folder]

    def origin(path: Path) -> str:
        owners = [owner for folder, owner in plugins if path.is_relative_to(folder)]
        return owners[0] if owners else "robo-rl" if path.is_absolute() else "./configs"

    return [
        ("configs", name, origin(path), str(path))
        for name, path in sorted(available_configs().items())
    ]
