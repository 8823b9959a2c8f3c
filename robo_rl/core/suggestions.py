"""Checks of array names, and suggestions for mistyped names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

_ARRAY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}")


def is_array_name(name: str) -> bool:
    """Return whether a name can name an array: letters, digits, _ and -, at most 100 of them."""
    return _ARRAY.fullmatch(name) is not None


def as_array_name(name: str) -> str:
    """Return the name with invalid characters of array names replaced by _."""
    return re.sub(r"[^A-Za-z0-9_-]|^-", "_", name)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to ``name``, or None if no name is close."""
    return next(iter(get_close_matches(name, sorted(known), n=1, cutoff=0.5)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown name: the nearest one, or all names if they are few."""
    names = sorted(known)
    near = nearest(name, names)
    hint = f"did you mean '{near}'?" if near else ""
    if not near or len(names) <= 12:
        hint += f"{' ' if hint else ''}known: {', '.join(names) or 'none'}"
    return hint
