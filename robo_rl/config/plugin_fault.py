"""Locates an error in plugin code: the called method and the line that raised.

A frame belongs to a package if its function does, or if its ``self`` is of a class of that
package. An error in a base class of the library is thus attributed to the plugin's subclass.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from traceback import walk_tb
from types import FrameType
from typing import Any, NamedTuple


class PluginFault(NamedTuple):
    """An error that the code of a package raised.

    Args:
        package: Top-level package.
        method: Outermost called function of the package, ``PegInsert.reward``.
        place: ``file:line`` of the innermost frame of the package.
        error: ``ZeroDivisionError: division by zero``.
    """

    package: str
    method: str
    place: str
    error: str


def fault_of(error: BaseException, packages: Collection[str]) -> PluginFault | None:
    """Return the fault of one of the packages; None if no frame belongs to them."""
    passed = list(_frames(error, packages))
    if not passed:
        return None
    (outer, _, package), (inner, line, _) = passed[0], passed[-1]
    place = f"{display_path(inner.f_code.co_filename)}:{line}"
    return PluginFault(package, _name(outer), place, format_exception_line(error))


def is_raised_in(error: BaseException, packages: Collection[str]) -> bool:
    """Return whether the line that raised is in a file of one of the packages."""
    names = [str(frame.f_globals.get("__name__", "")) for frame, _ in walk_tb(error.__traceback__)]
    return bool(names) and names[-1].partition(".")[0] in packages


def format_exception_line(error: BaseException) -> str:
    """Return an exception as one line, in the form of a traceback's last line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def display_path(file: str) -> str:
    """Return a file's path relative to the working folder if it lies below."""
    path, here = Path(file), Path(os.getcwd())
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def package_of(thing: Any) -> str:
    """Return the top-level package of a class or a function."""
    return str(getattr(thing, "__module__", "")).partition(".")[0]


def _frames(
    error: BaseException, packages: Collection[str]
) -> Iterator[tuple[FrameType, int, str]]:
    for frame, line in walk_tb(error.__traceback__):
        owners = {str(frame.f_globals.get("__name__", "")).partition(".")[0]}
        owners.add(package_of(type(frame.f_locals.get("self"))))
        for package in owners & set(packages):
            yield frame, line, package


def _name(frame: FrameType) -> str:
    owner, name = frame.f_locals.get("self"), frame.f_code.co_name
    return name if owner is None else f"{type(owner).__name__}.{name}"
