"""Which processes worked on a stage, the first one first: a stage that was interrupted had several.

Each says the versions that it ran under itself, since those of whoever started it may be others.
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
    """This process begins a stage, or goes on with it.

    Raises:
        DataError: What was noted before is damaged.
        OSError: It cannot be written.
    """
    body = json.dumps([*read_sessions(place), versions()], indent=1)
    write_file(place / FILE, body.encode())


def read_sessions(place: Path) -> tuple[Versions, ...]:
    """Package → version, of every process; none where nobody noted it.

    Raises:
        DataError: The list is damaged.
    """
    path = place / FILE
    if not path.is_file():
        return ()
    try:
        return tuple(dict(cast("Versions", each)) for each in json.loads(path.read_text()))
    except (OSError, ValueError, TypeError) as error:
        hint = "delete it; nobody knows then who worked on the stage before"
        raise DataError("cannot be read", where=path, found=str(error), hint=hint) from error
