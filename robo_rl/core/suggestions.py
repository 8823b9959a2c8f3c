"""Names: which can name an array, and which one a user who mistyped it probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

_ARRAY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}")


def is_array_name(name: str) -> bool:
    """Whether a name can name an array: letters, digits, _ and -, at most 100 of them."""
    return _ARRAY.fullmatch(name) is not None


def as_array_name(name: str) -> str:
    """The name with _ in the place of every character that cannot name an array."""
    return re.sub(r"[^A-Za-z0-9_-]|^-", "_", name)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to ``name``, or None where nothing comes near."""
    return next(iter(get_close_matches(name, sorted(known), n=1, cutoff=0.5)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint for an unknown name: the nearest one, and all of them where they are few."""
    names = sorted(known)
    near = nearest(name, names)
    hint = f"did you mean '{near}'?" if near else ""
    if not near or len(names) <= 12:
        hint += f"{' ' if hint else ''}known: {', '.join(names) or 'none'}"
    return hint
