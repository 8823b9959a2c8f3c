"""Differences between two configurations, and settings whose differences change no result.

A config names the latter in ``without_effect``, see ``ConfigModel``. Hashes of settings and
comparisons of runs treat them as their defaults.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar, cast

from robo_rl.config.component import Component
from robo_rl.config.interpolation import KeyPath
from robo_rl.config.models import ConfigModel, declared_fields
from robo_rl.core.errors import PluginError

_Settings = TypeVar("_Settings")


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


def effective_settings(settings: _Settings) -> _Settings:
    """Return a config or a component in which fields without effect have their defaults.

    Raises:
        PluginError: ``without_effect`` names no field, or one without a default.
    """
    value: Any = settings
    if isinstance(value, Component):
        return cast("_Settings", replace(value, cfg=effective_settings(value.cfg)))
    if isinstance(value, ConfigModel):
        kept = {name: effective_settings(each) for name, each in _fields(value)}
        fixed = _defaults_without_effect(type(value))
        return cast("_Settings", value.model_copy(update=kept | fixed))
    if type(value) is dict:
        named = cast("dict[Any, Any]", value)
        return cast("_Settings", {key: effective_settings(each) for key, each in named.items()})
    if type(value) in (list, tuple):
        return cast("_Settings", type(value)(map(effective_settings, value)))
    return settings


def paths_without_effect(settings: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the paths of fields without effect in a config, a component, or a mapping of these."""
    if isinstance(settings, Component):
        yield from paths_without_effect(settings.cfg, path)
    elif isinstance(settings, ConfigModel):
        idle = _defaults_without_effect(type(settings))
        yield from ((*path, name) for name in idle)
        for name, value in _fields(settings):
            if name not in idle:
                yield from paths_without_effect(value, (*path, name))
    elif isinstance(settings, dict):
        for key, value in cast("dict[str, Any]", settings).items():
            yield from paths_without_effect(value, (*path, key))


def without_paths(tree: Any, paths: Collection[KeyPath], path: KeyPath = ()) -> Any:
    """Return a tree of plain values without the keys at some paths."""
    if not isinstance(tree, dict):
        return tree
    return {
        key: without_paths(value, paths, (*path, key))
        for key, value in cast("dict[str, Any]", tree).items()
        if (*path, key) not in paths
    }


def _fields(config: ConfigModel) -> Iterator[tuple[str, Any]]:
    """Yield the fields that a config has, with their values."""
    known = type(config).model_fields
    yield from ((name, value) for name, value in config if name in known)


def _defaults_without_effect(kind: type[ConfigModel]) -> dict[str, Any]:
    """Return field → default of the fields without effect of a config."""
    names, fields = declared_fields(kind, "without_effect"), kind.model_fields
    if wrong := sorted(n for n in names if n not in fields or fields[n].is_required()):
        raise PluginError(
            "names a field that has no default, or that the config lacks",
            where=f"{kind.__module__}.{kind.__qualname__}: without_effect",
            found=", ".join(wrong),
        )
    return {name: fields[name].get_default(call_default_factory=True) for name in names}
