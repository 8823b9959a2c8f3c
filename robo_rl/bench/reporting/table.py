"""A table of a summary."""

from __future__ import annotations

from typing import NamedTuple


class Table(NamedTuple):
    """Title, column names, and rows of text."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
