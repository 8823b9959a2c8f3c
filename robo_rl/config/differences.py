"""Differences between two configurations, or other trees of plain values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from robo_rl.config.interpolation import KeyPath


class _Unset:
    def __repr__(self) -> str:
        return "unset"


UNSET = _Unset()
"""The value of a missing key."""


class Difference(NamedTuple):
    """One key, or element of a tree, that differs.

    Args:
        path: Path of the key.
        one: Value in the first tree; ``UNSET`` where the key is missing.
        other: Value in the second tree; ``UNSET`` where the key is missing.
    """

    path: KeyPath
    one: Any
    other: Any

    @property
    def key(self) -> str:
        """Return the dotted path."""
        return ".".join(map(str, self.path))


def differences(one: Any, other: Any, path: KeyPath = ()) -> Iterator[Difference]:
    """Yield the innermost keys in which two trees differ; lists are compared as a whole."""
    mappings = [{} if value is UNSET else value for value in (one, other)]
    if any(mappings) and all(isinstance(value, dict) for value in mappings):
        first, second = cast("list[dict[str, Any]]", mappings)
        for key in {**first, **second}:
            yield from differences(first.get(key, UNSET), second.get(key, UNSET), (*path, key))
    elif one != other:
        yield Difference(path, one, other)
