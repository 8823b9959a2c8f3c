"""Plain text tables, readable through a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def format_table(rows: Iterable[Sequence[object]], header: Sequence[str] = ()) -> str:
    """Return rows with aligned columns, two spaces apart."""
    lines = [[str(cell) for cell in row] for row in ([header] if header else []) + list(rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
