"""``robo-rl serve-env``: a simulator's interpreter becomes a server, until it is interrupted."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Annotated

import typer


def run(
    interpreter: Annotated[
        str, typer.Argument(help="A simulator of robo-rl env list, or the path of a Python.")
    ],
    socket: Annotated[Path, typer.Argument(help="Where to listen; a file that does not exist.")],
) -> None:
    """Serve worlds to any run whose env names the socket; one connection, one process."""
    from robo_rl.env import interpreters
    from robo_rl.env.remote_host import server_command, server_environment
    from robo_rl.errors import DeviceError

    made = interpreters.interpreter(interpreter)
    python = str(made) if made else shutil.which(interpreter)
    if python is None:
        simulator = interpreter in interpreters.RECIPES
        hint = f"robo-rl env create {interpreter}" if simulator else "see robo-rl env list"
        raise DeviceError("no such interpreter", where=interpreter, hint=hint)
    typer.echo(f"{python} serves at {socket}; a run connects with env.socket={socket.resolve()}")
    os.execve(python, server_command(python, str(socket)), server_environment())
