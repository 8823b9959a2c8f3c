"""Table of a suite's pilots: the settings that were tried, and the chosen ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from robo_rl.bench.suite.formatting import NOTHING
from robo_rl.bench.suite.suite import ReportConfig
from robo_rl.config.models import leaves

HEADER = ("method", "setting", "final", "area", "chosen")


def pilot_rows(pilots: Mapping[str, Any], report: ReportConfig) -> list[tuple[str, ...]]:
    """Return a row of every tried setting, in the columns of ``HEADER``.

    Args:
        pilots: Methods of ``PilotChoices`` as JSON values.
        report: Measure of the suite.
    """
    kind = report.score_measure
    return [
        (
            method,
            setting_text(trial["overrides"]),
            kind.table_cells(None, trial["score"], None, None)[-2],
            kind.format_value(trial["area"]),
            "yes" if index == choice["chosen"] else "",
        )
        for method, choice in pilots.items()
        for index, trial in enumerate(choice["trials"])
    ]


def setting_text(overrides: Mapping[str, Any]) -> str:
    """Return overrides in a line, each by the last part of its key."""
    found = [f"{path[-1]} {_value(value)}" for path, value in leaves(overrides) if path]
    return ", ".join(found) or "as in the method's file"


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return NOTHING if value is None else str(value)
