"""Records the processes that worked on a stage, in order; an interrupted stage has several.

Each process records its own package versions, which may differ from those of the launcher.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

from robo_rl.config.provenance import versions
from robo_rl.core.atomic_files import write_file
from robo_rl.core.errors import DataError

FILE = "starts.json"

Versions = dict[str, str]


def record_session(place: Path) -> None:
    """Record that this process begins or continues a stage.

    Raises:
        DataError: The earlier record is damaged.
        OSError: It cannot be written.
    """
    body = json.dumps([*read_sessions(place), versions()], indent=1)
    write_file(place / FILE, body.encode())


def read_sessions(place: Path) -> tuple[Versions, ...]:
    """Return package → version of every process; empty without a record.

    Raises:
        DataError: The record is damaged.
    """
    path = place / FILE
    if not path.is_file():
        return ()
    try:
        return tuple(dict(cast("Versions", each)) for each in json.loads(path.read_text()))
    except (OSError, ValueError, TypeError) as error:
        hint = "delete it; the earlier sessions of the stage are unknown then"
        raise DataError("cannot be read", where=path, found=str(error), hint=hint) from error
