r"""References such as ``${task.episode_s}`` to other keys of the same config.

A string that is exactly one reference becomes the referenced value, of any type; a reference
within a longer string becomes the scalar's text. ``\${`` stands for ``${``. References name
config keys only: neither environment variables nor functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from robo_rl.core.errors import ConfigError
from robo_rl.core.suggestions import did_you_mean

KeyPath = tuple[str | int, ...]

_MOST = 1_000_000
"""Limit on the values and characters that references expand to, against unbounded expansion."""
_DEEPEST = 100
_REFERENCE = re.compile(r"\$\{([^${}]*)\}")
_TOKEN = re.compile(r"(?P<escaped>\\\$\{)|\$\{(?P<key>[^${}]*)\}|\$\{")
_EXPECTED = "${dotted.key}"


def keys_of(dotted: str) -> list[str]:
    """Return the keys of ``stages[0].steps`` or ``stages.0.steps``, outermost first."""
    return re.sub(r"\[(\d+)\]", r".\1", dotted.strip()).split(".")


def interpolate(values: dict[str, Any], origin: Callable[[KeyPath], str]) -> dict[str, Any]:
    """Replace all references by the values of the referenced keys.

    Args:
        values: Nested plain dicts, lists and scalars.
        origin: Key path → the place of the value, for errors.

    Raises:
        ConfigError: A reference names no key, forms a cycle, or is not closed.
    """
    return _Interpolation(values, origin).expanded(values, (), frozenset())


class _Interpolation:
    def __init__(self, values: dict[str, Any], origin: Callable[[KeyPath], str]) -> None:
        self._values, self._origin, self._left = values, origin, _MOST

    def expanded(self, value: Any, path: KeyPath, within: frozenset[KeyPath]) -> Any:
        """Return the value at a path without references; within: keys under resolution."""
        if isinstance(value, dict):
            items = cast("dict[str, Any]", value).items()
            return {key: self.expanded(child, (*path, key), within) for key, child in items}
        if isinstance(value, list):
            items = enumerate(cast("list[Any]", value))
            return [self.expanded(child, (*path, index), within) for index, child in items]
        if not isinstance(value, str) or "${" not in value:
            return value
        if whole := _REFERENCE.fullmatch(value):
            return self._value(whole[1], path, within)
        return _TOKEN.sub(lambda token: self._text(token, path, within), value)

    def _text(self, token: re.Match[str], path: KeyPath, within: frozenset[KeyPath]) -> str:
        if token["escaped"]:
            return "${"
        if token["key"] is None:
            raise self._error("a reference that is not one", path, expected=_EXPECTED)
        value = self._value(token["key"], path, within)
        if isinstance(value, dict | list):
            raise self._error(f"'{token[0]}' within a text is no scalar", path)
        return str(value)

    def _value(self, key: str, path: KeyPath, within: frozenset[KeyPath]) -> Any:
        target = self._path(key, path)
        if target in within:
            raise self._error(f"'${{{key}}}' leads back to itself", path)
        if len(within) == _DEEPEST:
            raise self._error(f"more than {_DEEPEST} references to references", path)
        value: Any = self._values
        for part in target:
            value = value[part]
        value = self.expanded(value, target, within | {target})
        self._left -= _size(value)
        if self._left < 0:
            raise self._error(f"references bring more than {_MOST} values", path)
        return value

    def _path(self, key: str, path: KeyPath) -> KeyPath:
        """Return the path of the referenced key; raise for a missing key."""
        target: KeyPath = ()
        value: Any = self._values
        for name in keys_of(key):
            known: Mapping[Any, Any] = (
                dict(enumerate(cast("list[Any]", value))) if isinstance(value, list) else value
            )
            part = int(name) if isinstance(value, list) and name.isdecimal() else name
            if not isinstance(known, dict) or part not in known:
                hint = did_you_mean(name, map(str, known)) if isinstance(known, dict) else None
                problem = f"'${{{key}}}' names no key of this config"
                raise self._error(problem, path, hint=hint)
            target, value = (*target, part), known[part]
        return target

    def _error(self, problem: str, path: KeyPath, **details: Any) -> ConfigError:
        where = f"{self._origin(path)} {'.'.join(map(str, path))}".strip()
        return ConfigError(problem, where=where, **details)


def _size(value: Any) -> int:
    """Return the number of values and characters."""
    if isinstance(value, dict | list):
        items = cast("Any", value.values() if isinstance(value, dict) else value)
        return 1 + sum(map(_size, items))
    return 1 + (len(value) if isinstance(value, str) else 0)
