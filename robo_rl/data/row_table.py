"""Columns of equal length that grow as rows are written.

Shapes: N rows, n rows written at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from robo_rl.core.errors import DataError


class RowTable:
    """Tensors (N, …) by name; the first rows define the columns, and unwritten rows are zero.

    Args:
        device: Device of the tensors.
    """

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)
        self.columns: dict[str, Tensor] = {}

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def write(self, at: Tensor, values: Mapping[str, Tensor], limit: int) -> None:
        """Write rows (n, …) at distinct indices (n,); the table grows to at most ``limit`` rows.

        Raises:
            DataError: Names, shapes or types differ from the existing columns.
        """
        if not len(at):
            return
        self.check(values)
        self._put(at, values, limit)

    def check(self, values: Mapping[str, Tensor]) -> None:
        """Check that rows fit the columns.

        Raises:
            DataError: Names, shapes or types differ from the existing columns.
        """
        expected = {name: _kind(column) for name, column in self.columns.items()}
        found = {name: _kind(value) for name, value in values.items()}
        for name in sorted({**expected, **found}):
            if expected and expected.get(name) != found.get(name):
                raise DataError(
                    f"'{name}' of new rows differs from that of the rows before",
                    expected=expected.get(name, "no such column"),
                    found=found.get(name, "no such column"),
                    hint="demonstrations and env must agree in observations, chunks and types",
                )

    def take(self, at: Tensor, prefix: str) -> dict[str, Tensor]:
        """Return rows (n, …) of the columns with a prefix, by their names without it."""
        named = (item for item in self.columns.items() if item[0].startswith(prefix))
        return {name.removeprefix(prefix): column[at] for name, column in named}

    def state_from(self, first: int, end: int) -> dict[str, Any]:
        """Return the rows from ``first`` to before ``end`` as views, for ``load_state``."""
        return {"columns": {name: column[first:end] for name, column in self.columns.items()}}

    def load_state(self, at: Tensor, state: Mapping[str, Any], limit: int) -> None:
        """Write the rows of ``state_from`` at indices (n,); see ``write``."""
        self.write(at, state["columns"], limit)

    def digest(self, rows: int, *, without: Collection[str] = ()) -> str:
        """Return the SHA-256 of the first rows, except some columns; empty for no rows."""
        content = hashlib.sha256()
        for name in sorted(set(self.columns) - set(without)) if rows else ():
            column = self.columns[name][:rows].cpu().contiguous()
            content.update(f"\0{name}\0{column.dtype}\0{tuple(column.shape)}\0".encode())
            content.update(column.numpy().data)
        return content.hexdigest() if rows else ""

    def _put(self, at: Tensor, values: Mapping[str, Tensor], limit: int) -> None:
        self._grow(int(at.max()) + 1, limit, values)
        at = at.to(self.device)
        for name, value in values.items():
            self.columns[name][at] = value.to(self.device)

    def _grow(self, rows: int, limit: int, like: Mapping[str, Tensor]) -> None:
        if rows <= len(self):
            return
        size = min(max(rows, 2 * len(self)), limit)
        for name, value in like.items():
            new = torch.zeros(size, *value.shape[1:], dtype=value.dtype, device=self.device)
            if name in self.columns:
                new[: len(self.columns[name])] = self.columns[name]
            self.columns[name] = new


def _kind(column: Tensor) -> str:
    shape = ", ".join(["N", *map(str, column.shape[1:])])
    return f"({shape}) {str(column.dtype).removeprefix('torch.')}"
