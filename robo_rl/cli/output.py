"""What verbs print and write: tables, and ``--json FILE``, whose path is tested before the run."""

from __future__ import annotations

import errno
import json
import re
import secrets
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from robo_rl.core.atomic_files import make_directory, write_file
from robo_rl.core.errors import ConfigError

_DESCRIPTOR = re.compile(
    r"/dev/(fd/\d+|stdin|stdout|stderr)|/proc/(self|thread-self|\d+)(/task/\d+)?/fd/\d+"
)


def _tried(path: Path | None) -> Path | None:
    """Raise ConfigError if the file cannot be written; the test leaves only its folder behind."""
    if path is None:
        return None
    with _told(path, "name another --json"):
        if is_stream(path):
            path.stat()
        else:
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, "is a directory", str(path))
            make_directory(path.parent)
            probe = path.resolve().with_name(f".probe-{secrets.token_hex(4)}")
            probe.touch()
            probe.unlink()
    return path


Json = Annotated[
    Path | None,
    typer.Option("--json", help="File to write the numbers to.", callback=_tried),
]


def write_json(path: Path | None, values: Mapping[str, Any]) -> None:
    """Write the numbers to the requested file, if any: whole, or not at all.

    Raises:
        ConfigError: The file cannot be written.
    """
    if path is None:
        return
    text = json.dumps(values, indent=2) + "\n"
    with _told(path, "name another --json; where the verb keeps what it ran, it is kept"):
        if is_stream(path):
            with path.open("a") as stream:
                stream.write(text)
        else:
            write_file(path.resolve(), text.encode())


@contextmanager
def json_beside(path: Path | None, values: Mapping[str, Any]) -> Generator[None]:
    """Write the numbers as ``write_json`` does, and run the block even if that fails.

    The block prints how the verb ended and may raise an error of its own, which then comes first.

    Raises:
        ConfigError: The file cannot be written.
    """
    unwritten = None
    try:
        write_json(path, values)
    except ConfigError as error:
        unwritten = error
    try:
        yield
    except (Exception, SystemExit):
        if unwritten is not None:
            typer.echo(f"robo-rl: {unwritten}", err=True)
        raise
    if unwritten is not None:
        raise unwritten


def is_stream(path: Path) -> bool:
    """Return whether path is a terminal, a pipe or an open descriptor: append, do not replace."""
    special = path.exists() and not path.is_file() and not path.is_dir()
    names = [path.absolute(), path.parent.resolve() / path.name]
    names += [path.readlink()] if path.is_symlink() else []
    return special or any(_DESCRIPTOR.fullmatch(str(name)) for name in names)


@contextmanager
def _told(path: Path, hint: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        problem = f"could not be written: {error.strerror or error}"
        raise ConfigError(problem, where=path, hint=hint) from error


def format_table(rows: Iterable[Sequence[object]], header: Sequence[str] = ()) -> str:
    """Return rows with aligned columns, two spaces apart."""
    lines = [[str(cell) for cell in row] for row in ([header] if header else []) + list(rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
