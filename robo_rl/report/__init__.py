"""``report.html``: the whole run on one page that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from robo_rl.core.atomic_files import write_file
from robo_rl.report.page import page
from robo_rl.report.run_record import RunRecord

PAGE = "report.html"


def write_report(run_dir: str | Path, summary: Mapping[str, Any]) -> Path:
    """Write the page of a run, finished or not.

    Args:
        run_dir: ``runs/<name>``, see ``run_record``.
        summary: Facts for the head of the page; what is no number or text is left out.

    Returns:
        Path of the page.
    """
    directory = Path(run_dir)
    path = directory / PAGE
    write_file(path, page(RunRecord.read(directory), summary).encode())
    return path
