"""Expands a suite's list of task names to a mapping of overrides, so that each is named once."""

from __future__ import annotations

from typing import cast

from robo_rl.config.yaml_nodes import YamlNode
from robo_rl.core.errors import ConfigError


def expand_task_list(section: YamlNode, default_key: str) -> YamlNode:
    """Return a suite's section with ``tasks`` as a mapping; a mapping stays as it is.

    Args:
        section: The suite's section. A list of ``tasks`` becomes name → override of ``task_key``.
        default_key: Dotted key to override where ``task_key`` is missing.

    Raises:
        ConfigError: A name is no text or is there twice, or ``task_key`` is no text.
    """
    values = cast("dict[str, YamlNode]", section.value)
    tasks = values.get("tasks")
    if tasks is None or not isinstance(tasks.value, list):
        return section
    key = values.get("task_key", YamlNode(default_key, section.origin))
    if not isinstance(key.value, str):
        raise ConfigError("task_key must be a dotted key", where=key.origin, found=key.value)
    found: dict[str, YamlNode] = {}
    for name in cast("list[YamlNode]", tasks.value):
        if not isinstance(name.value, str):
            raise ConfigError("a list of tasks has names", where=name.origin, found=name.value)
        if name.value in found:
            raise ConfigError(f"task '{name.value}' is there twice", where=name.origin)
        found[name.value] = _nested(key.value, name)
    return YamlNode({**values, "tasks": YamlNode(found, tasks.origin)}, section.origin)


def _nested(key: str, value: YamlNode) -> YamlNode:
    """Return the mapping that sets a dotted key."""
    for part in reversed(key.split(".")):
        value = YamlNode({part: value}, value.origin)
    return value
