"""The list of all reference pages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tools.reference import api, bundle_format, cli, config_keys, entry_points, metrics

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
PAGES: dict[str, Callable[[], str]] = {
    "config-keys": config_keys.page,
    "cli": cli.page,
    "metrics": metrics.page,
    "entry-points": entry_points.page,
    "bundle-format": bundle_format.page,
    "api": api.page,
}
"""Name of a page → function that returns its text."""
