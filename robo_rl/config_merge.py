"""How one tree of config nodes is put over another.

Mappings merge, all else replaces; a mapping whose ``name`` differs from the one below replaces it
too, since the fields below belong to another component.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from robo_rl.errors import ConfigError
from robo_rl.naming import did_you_mean
from robo_rl.yaml_tree import Node


def merge(below: Node, above: Node) -> Node:
    """Two trees as a file is merged over its base.

    Raises:
        ConfigError: An item of a list is named that is not there.
    """
    return _merge(below, above, root=True)


def placed(node: Node, keys: Sequence[str]) -> Node:
    """The node under nested keys, outermost first."""
    for key in reversed(keys):
        node = Node({key: node}, node.origin)
    return node


def _merge(below: Node, above: Node, *, root: bool = False) -> Node:
    if not isinstance(above.value, dict):
        return above
    if isinstance(below.value, list):
        return _merge_items(below, above)
    if isinstance(below.value, str) and not root:
        below = Node({"name": below}, below.origin)
    if not isinstance(below.value, dict) or (not root and _another(below, above)):
        return above
    merged = dict(cast("dict[str, Node]", below.value))
    for key, node in cast("dict[str, Node]", above.value).items():
        merged[key] = _merge(merged[key], node) if key in merged else node
    return Node(merged, below.origin)


def _another(below: Node, above: Node) -> bool:
    """Whether both are components, and different ones."""
    names = below.value.get("name"), above.value.get("name")
    return None not in names and names[0].value != names[1].value


def _merge_items(below: Node, above: Node) -> Node:
    """A mapping over a list changes single items, named by index or by their ``name``."""
    items: list[Node] = list(below.value)
    for key, node in cast("dict[str, Node]", above.value).items():
        index = _item(items, key, node.origin)
        items[index] = _merge(items[index], node)
    return Node(items, below.origin)


def _item(items: list[Node], key: str, origin: str) -> int:
    names = [
        str(item.value["name"].value)
        if isinstance(item.value, dict) and "name" in item.value
        else str(item.value)
        for item in items
    ]
    if re.fullmatch(r"[0-9]{1,6}", key) and int(key) < len(items):
        return int(key)
    if names.count(key) == 1:
        return names.index(key)
    many = key in names
    problem = f"{'several items' if many else 'no item'} of the list named '{key}'"
    hint = "use an index" if many else did_you_mean(key, names)
    raise ConfigError(problem, where=origin, hint=hint)
