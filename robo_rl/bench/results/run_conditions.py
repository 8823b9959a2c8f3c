"""Records the conditions of each session of a run, on which times and numbers depend."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from robo_rl.config.models import ConfigModel
from robo_rl.core.atomic_files import make_directory, write_file
from robo_rl.core.errors import DataError

FILE = "sittings.json"


class RunConditions(ConfigModel):
    """Conditions of a session: cells at once, threads of each, version of robo-rl, and machine.

    ``machine`` is empty in older records.
    """

    jobs: int
    threads: int
    version: str
    machine: str = ""


def describe_machine(machine: Mapping[str, Any]) -> str:
    """Describe a machine (``provenance.machine``) as far as times depend on it."""
    cores, rest = machine.get("cores"), (machine.get("processor"), machine.get("system"))
    return ", ".join(map(str, (f"{cores} cores", *rest)))


def conditions_of(run: Path) -> tuple[RunConditions, ...]:
    """Return the distinct conditions of a run and of its shared stages, the latest last.

    Raises:
        DataError: The record of the run is damaged.
    """
    path = run / FILE
    if not path.is_file():
        return ()
    try:
        return tuple(RunConditions.model_validate(each) for each in json.loads(path.read_text()))
    except (OSError, ValueError, TypeError, ValidationError) as error:
        hint = "delete it, and the run's seconds with it"
        raise DataError("cannot be read", where=path, found=str(error), hint=hint) from error


def add_conditions(run: Path, found: Iterable[RunConditions]) -> None:
    """Add conditions to those of a run, as the latest.

    Raises:
        DataError: The record of the run is damaged.
        OSError: It cannot be written.
    """
    before = conditions_of(run)
    latest = tuple(dict.fromkeys(found))
    after = (*(each for each in before if each not in latest), *latest)
    if after != before:
        make_directory(run)
        body = json.dumps([each.model_dump() for each in after], indent=1)
        write_file(run / FILE, body.encode())
