"""One layer of settings, with the files that it is based on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from robo_rl.config.merge import merge
from robo_rl.config.search_path import read
from robo_rl.config.yaml_nodes import Node
from robo_rl.core.errors import ConfigError


def expanded(node: Node) -> Node:
    """An overlay with what it is based on: a mapping, or the name of a config.

    Raises:
        ConfigError: It is neither.
    """
    if node.value is None:
        return Node({}, node.origin)
    if isinstance(node.value, str):
        return read(node.value)
    if not isinstance(node.value, dict):
        raise ConfigError("overrides must be a mapping or the name of a config", where=node.origin)
    values = dict(cast("dict[str, Node]", node.value))
    bases = values.pop("base", Node([], node.origin))
    tree = Node({}, node.origin)
    for base in _listed(bases):
        tree = merge(tree, read(base))
    return merge(tree, Node(values, node.origin))


def _listed(bases: Node) -> Iterator[str]:
    entries = bases.value if isinstance(bases.value, list) else [bases]
    for entry in cast("list[Node]", entries):
        if not isinstance(entry.value, str):
            raise ConfigError("base must list names", where=bases.origin)
        yield entry.value


def nothing() -> Node:
    """A layer that changes nothing."""
    return Node({}, "")
