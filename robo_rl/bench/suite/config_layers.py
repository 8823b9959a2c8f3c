"""Expands a layer of settings with the configs that it is based on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from robo_rl.config.merge import merge
from robo_rl.config.search_path import read_config
from robo_rl.config.yaml_nodes import YamlNode
from robo_rl.core.errors import ConfigError


def expand_layer(node: YamlNode) -> YamlNode:
    """Return an overlay merged over its bases; the node is a mapping or the name of a config.

    Raises:
        ConfigError: It is neither.
    """
    if node.value is None:
        return YamlNode({}, node.origin)
    if isinstance(node.value, str):
        return read_config(node.value)
    if not isinstance(node.value, dict):
        raise ConfigError("overrides must be a mapping or the name of a config", where=node.origin)
    values = dict(cast("dict[str, YamlNode]", node.value))
    bases = values.pop("base", YamlNode([], node.origin))
    tree = YamlNode({}, node.origin)
    for base in _listed(bases):
        tree = merge(tree, read_config(base))
    return merge(tree, YamlNode(values, node.origin))


def _listed(bases: YamlNode) -> Iterator[str]:
    entries = bases.value if isinstance(bases.value, list) else [bases]
    for entry in cast("list[YamlNode]", entries):
        if not isinstance(entry.value, str):
            raise ConfigError("base must list names", where=bases.origin)
        yield entry.value


def empty_layer() -> YamlNode:
    """Return a layer that changes nothing."""
    return YamlNode({}, "")
