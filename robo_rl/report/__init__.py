"""Writes ``report.html``, a self-contained page of the whole run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from robo_rl.core.atomic_files import write_file
from robo_rl.report.page import page
from robo_rl.report.run_record import RunRecord

PAGE = "report.html"


def write_report(run_dir: str | Path, summary: Mapping[str, Any]) -> Path:
    """Write the report page of a finished or unfinished run.

    Args:
        run_dir: ``runs/<name>``, see ``run_record``.
        summary: Facts for the header; only numbers and text are shown.

    Returns:
        Path of the page.
    """
    directory = Path(run_dir)
    path = directory / PAGE
    write_file(path, page(RunRecord.read(directory), summary).encode())
    return path
