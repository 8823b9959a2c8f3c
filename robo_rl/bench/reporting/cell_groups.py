"""Names of many cells in few words: tasks and methods with the same seeds are named once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

Seeds = tuple[str, ...]
Methods = tuple[tuple[tuple[str, ...], Seeds], ...]
"""Methods with the same seeds, and these seeds."""
_Value = TypeVar("_Value", bound=Hashable)


def group_cells(cells: Iterable[str]) -> str:
    """Return cells ``task method seed`` in groups, such as ``a, b: default (seeds 1, 2)``.

    Tasks are in one group if they have the same methods with the same seeds. The order is that of
    the first cells.
    """
    tasks: dict[str, dict[str, Seeds]] = {}
    for task, method, seed in (cell.rsplit(" ", 2) for cell in cells):
        seeds = tasks.setdefault(task, {})
        seeds[method] = (*seeds.get(method, ()), seed)
    by_methods = _with_equal_values({task: _group_methods(found) for task, found in tasks.items()})
    return "; ".join(
        f"{', '.join(names)}: {_text(methods)}" for methods, names in by_methods.items()
    )


def _group_methods(seeds: Mapping[str, Seeds]) -> Methods:
    return tuple((names, same) for same, names in _with_equal_values(seeds).items())


def _with_equal_values(found: Mapping[str, _Value]) -> dict[_Value, tuple[str, ...]]:
    """Return value → names that have it."""
    names: dict[_Value, tuple[str, ...]] = {}
    for name, value in found.items():
        names[value] = (*names.get(value, ()), name)
    return names


def _text(methods: Methods) -> str:
    return ", ".join(
        f"{', '.join(names)} (seed{'s' if len(seeds) > 1 else ''} {', '.join(seeds)})"
        for names, seeds in methods
    )
