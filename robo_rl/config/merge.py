"""Merging of two trees of config nodes.

Mappings merge; every other value replaces the value below. A mapping with another ``name`` also
replaces, since the fields below belong to another component. ``stages`` keep an order, and
a stage can be removed: ``stages: {bc: false}``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from robo_rl.config.yaml_nodes import YamlNode
from robo_rl.core.errors import ConfigError
from robo_rl.core.suggestions import did_you_mean

STAGES = "stages"


def merge(below: YamlNode, above: YamlNode, *, in_order: bool = True) -> YamlNode:
    """Merge a file's tree over the tree of its base.

    Args:
        below: The base.
        above: The tree that takes precedence.
        in_order: Whether a new stage of ``above`` is inserted before the existing stages that
            ``above`` lists after it; otherwise it is appended.

    Raises:
        ConfigError: The tree addresses a list item that does not exist, or has null over a stage
            with settings.
    """
    merged = combine(below, above)
    stages = [tree.value.get(STAGES) for tree in (below, above, merged)]
    if not all(node is not None and isinstance(node.value, dict) for node in stages):
        return merged
    first, second, both = (cast("dict[str, YamlNode]", node.value) for node in stages if node)
    for name in first.keys() & second.keys():
        _demand_no_null(name, first[name], second[name])
    names = _in_order(list(first), list(second)) if in_order else list(both)
    kept = {name: both[name] for name in names if not (name in first and _is_none(both[name]))}
    origin = merged.value[STAGES].origin
    return YamlNode({**merged.value, STAGES: YamlNode(kept, origin)}, merged.origin)


def _demand_no_null(stage: str, below: YamlNode, above: YamlNode) -> None:
    """Refuse null over a stage with settings, which would silently have its defaults."""
    if above.value is None and isinstance(below.value, dict) and below.value:
        raise ConfigError(
            f"stages.{stage}: null over a stage with settings",
            where=above.origin,
            expected="a mapping, or false",
            found="null",
            hint=f"{stage}: {{}} keeps its settings, {stage}: false removes the stage",
        )


def combine(one: YamlNode, other: YamlNode) -> YamlNode:
    """Merge two trees of which neither is a base, such as overrides; removals persist.

    Raises:
        ConfigError: A tree addresses a list item that does not exist.
    """
    return _merge(one, other, root=True)


def _in_order(first: list[str], second: list[str]) -> list[str]:
    """Return the first order, with the second's own names before their next common name."""
    names = list(first)
    for at, name in enumerate(second):
        if name not in names:
            following = [names.index(other) for other in second[at:] if other in names]
            names.insert(following[0] if following else len(names), name)
    return names


def _is_none(stage: YamlNode) -> bool:
    """Return whether the node removes the stage."""
    return stage.value is False


def nest_under(node: YamlNode, keys: Sequence[str]) -> YamlNode:
    """Return the node under nested keys, outermost first."""
    for key in reversed(keys):
        node = YamlNode({key: node}, node.origin)
    return node


def _merge(below: YamlNode, above: YamlNode, *, root: bool = False) -> YamlNode:
    if not isinstance(above.value, dict):
        return above
    if isinstance(below.value, list):
        return _merge_items(below, above)
    if isinstance(below.value, str) and not root:
        below = YamlNode({"name": below}, below.origin)
    if not isinstance(below.value, dict) or (not root and _another(below, above)):
        return above
    merged = dict(cast("dict[str, YamlNode]", below.value))
    for key, node in cast("dict[str, YamlNode]", above.value).items():
        merged[key] = _merge(merged[key], node) if key in merged else node
    return YamlNode(merged, below.origin)


def _another(below: YamlNode, above: YamlNode) -> bool:
    """Return whether both nodes are components, with different names."""
    names = below.value.get("name"), above.value.get("name")
    return None not in names and names[0].value != names[1].value


def _merge_items(below: YamlNode, above: YamlNode) -> YamlNode:
    """Merge a mapping into a list: it changes single items by index or ``name``."""
    items: list[YamlNode] = list(below.value)
    for key, node in cast("dict[str, YamlNode]", above.value).items():
        index = _item(items, key, node.origin)
        items[index] = _merge(items[index], node)
    return YamlNode(items, below.origin)


def _item(items: list[YamlNode], key: str, origin: str) -> int:
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
