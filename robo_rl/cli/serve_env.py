"""``robo-rl serve-env``: serves the worlds of a simulator's interpreter until interrupted."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Annotated

import typer

_LONGEST = 100
"""Limit of a Unix socket's address in characters; systems allow 104 to 108."""


def run(
    interpreter: Annotated[
        str, typer.Argument(help="A simulator of robo-rl env list, or the path of a Python.")
    ],
    socket: Annotated[Path, typer.Argument(help="Where to listen; a file that does not exist.")],
) -> None:
    """Serve worlds to any run whose env uses the socket; one process per connection."""
    from robo_rl.core.errors import ConfigError, DeviceError
    from robo_rl.env.remote import interpreters
    from robo_rl.env.remote.server_process import server_command, server_environment

    made = interpreters.find_interpreter(interpreter)
    python = str(made) if made else shutil.which(interpreter)
    if python is None:
        simulator = interpreter in interpreters.RECIPES
        hint = f"robo-rl env create {interpreter}" if simulator else "see robo-rl env list"
        raise DeviceError("no such interpreter", where=interpreter, hint=hint)
    if socket.exists() or not socket.parent.is_dir() or len(str(socket)) > _LONGEST:
        raise ConfigError(
            "cannot listen there",
            where=str(socket),
            expected=f"a new file of a folder that exists, within {_LONGEST} characters",
            found="a file that is there" if socket.exists() else None,
            hint="is a server running there already?" if socket.exists() else None,
        )
    typer.echo(f"{python} serves at {socket}; a run connects with env.socket={socket.resolve()}")
    os.execve(python, server_command(python, str(socket)), server_environment())
