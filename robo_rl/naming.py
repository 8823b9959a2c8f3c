"""The nearest name: what a user who mistyped one probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


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
