"""Composes YAML files and overrides into one tree of values, each with its origin.

A file may have ``base: [task/lift_cube, policy/flow]``: bases are merged in order, each file once,
and the file's own values over them (``search_path``, ``merge``). Overrides
(``algo.lr=1e-4``, ``stages.bc.steps=100``) are merged last, all at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from robo_rl.config.interpolation import KeyPath, interpolate, keys_of
from robo_rl.config.merge import STAGES, combine, merge, nest_under
from robo_rl.config.search_path import read_config
from robo_rl.config.yaml_nodes import YamlNode, parse
from robo_rl.core.errors import ConfigError


@dataclass(frozen=True)
class ConfigTree:
    """Composed values with references resolved, and the origin of each value.

    Args:
        values: Nested plain dicts, lists and scalars.
        origins: Key path → ``file:line`` or ``override '…'``.
    """

    values: dict[str, Any]
    origins: dict[KeyPath, str]

    def origin(self, path: KeyPath) -> str:
        """Return the origin of a value, or of the nearest mapping or list around it."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.origins:
                return self.origins[path[:end]]
        return "configuration"


def compose(
    name_or_path: str | Path, overrides: Sequence[str] = (), search: Iterable[Path] | None = None
) -> ConfigTree:
    """Read a config with its bases and apply the overrides.

    Args:
        name_or_path: ``demo`` (also in ``experiment/``), ``task/lift_cube``, or a file's path.
        overrides: ``dotted.key=value`` each; the value is YAML.
        search: Folders that are searched for names; ``search_path.default_search()`` if not
            given.

    Raises:
        ConfigError: A file is missing, unreadable, cyclic or not in the YAML subset, or an
            override does not fit.
    """
    return resolve_tree(
        merge(read_config(name_or_path, search), overlay(overrides), in_order=False)
    )


def overlay(overrides: Sequence[str]) -> YamlNode:
    """Return all overrides as one tree; their order matters only for repeated keys.

    ``policy=diffusion`` comes before ``policy.horizon=16`` in either order.
    """
    tree = YamlNode({}, "overrides")
    for override in overrides:
        _check_override(override)
    for override in sorted(overrides, key=lambda each: len(keys_of(each.partition("=")[0]))):
        origin = f"override '{override}'"
        key, _, text = override.partition("=")
        node = nest_under(parse(text, lambda _, o=origin: o), keys_of(key))
        _check_removed(tree, node, origin)
        tree = combine(tree, node)
    return tree


def resolve_tree(root: YamlNode) -> ConfigTree:
    """Return the tree of merged nodes, with references (``${task.dt_s}``) resolved.

    Raises:
        ConfigError: See ``interpolate``.
    """
    written = ConfigTree(plain(root), dict(_walk(root, ())))
    return ConfigTree(interpolate(written.values, written.origin), written.origins)


def _check_removed(tree: YamlNode, node: YamlNode, origin: str) -> None:
    """Refuse settings of a stage that another override removes."""
    known, new = (_stages(each) for each in (tree, node))
    for label, stage in new.items():
        if isinstance(stage.value, dict) and label in known and known[label].value is False:
            removal, hint = known[label].origin, "leave one of them out"
            raise ConfigError("sets a removed stage", where=origin, found=removal, hint=hint)


def _stages(tree: YamlNode) -> dict[str, YamlNode]:
    stages = cast("dict[str, YamlNode]", tree.value).get(STAGES)
    found = None if stages is None else stages.value
    return cast("dict[str, YamlNode]", found) if isinstance(found, dict) else {}


def _check_override(override: str) -> None:
    key, equals, _ = override.partition("=")
    if not equals or not all(keys_of(key)):
        raise ConfigError(
            "not an override", where=f"override '{override}'", expected="dotted.key=value"
        )


def _walk(node: YamlNode, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    yield path, node.origin
    if isinstance(node.value, dict | list):
        items = node.value.items() if isinstance(node.value, dict) else enumerate(node.value)
        for key, child in cast("Iterable[tuple[str | int, YamlNode]]", items):
            yield from _walk(child, (*path, key))


def plain(node: YamlNode) -> Any:
    """Return the values of a node without their places; interpolations stay as they are."""
    if isinstance(node.value, dict):
        return {key: plain(child) for key, child in cast("dict[str, YamlNode]", node.value).items()}
    if isinstance(node.value, list):
        return [plain(child) for child in cast("list[YamlNode]", node.value)]
    return node.value
