"""Lazy import of the public names of a package at their first use (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def on_demand(
    package: str, modules: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package.

    Args:
        package: Its ``__name__``.
        modules: Module → the public names that it defines.

    Returns:
        ``__getattr__`` imports the module of a name and caches the value; ``__dir__`` lists the
        public names besides the loaded ones.
    """
    home = {name: module for module, names in modules.items() for name in names}
    loaded = vars(sys.modules[package])

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        loaded[name] = getattr(import_module(home[name]), name)
        return loaded[name]

    return get, lambda: sorted({*loaded, *home})
