"""Reads a suite's file and separates its own settings from those of its cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from robo_rl.bench.suite.config_layers import empty_layer, expand_layer
from robo_rl.bench.suite.pilots import blank_settings
from robo_rl.bench.suite.plan import FOLDER, SuitePlan
from robo_rl.bench.suite.suite import TASK_KEY, Suite
from robo_rl.bench.suite.task_list import expand_task_list
from robo_rl.config.compose import overlay, plain, resolve_tree
from robo_rl.config.merge import merge
from robo_rl.config.models import ConfigModel, ConfigTree, validate
from robo_rl.config.search_path import available_configs, read_config
from robo_rl.config.yaml_nodes import YamlNode
from robo_rl.core.errors import ConfigError
from robo_rl.core.suggestions import did_you_mean

_OVERLAYS = ("tasks", "methods", "cells", "pilots")
_HARMLESS = ("seeds", "jobs", "description", "notes", "timed_like")
"""Settings of a suite that change neither its cells nor their kept results."""


class _Root(ConfigModel):
    suite: Suite


def load_plan(name: str, overrides: Sequence[str] = ()) -> SuitePlan:
    """Read a suite.

    Args:
        name: ``metaworld_dev``, or a file's path.
        overrides: ``key=value`` for the experiment of every cell; ``suite.seeds=[0]`` and the like
            for the suite itself.

    Raises:
        ConfigError: The suite is missing or invalid, or the file is not a suite.
    """
    stem, tree, foreign = _found(name)
    last = overlay(overrides)
    of_suite, of_cells = _parted(last)
    whole = dict(cast("dict[str, YamlNode]", merge(tree, of_suite).value))
    if FOLDER not in whole or not isinstance(whole[FOLDER].value, dict):
        raise ConfigError("is no suite", where=tree.origin, expected="a key 'suite'")
    section = expand_task_list(whole.pop(FOLDER), TASK_KEY)
    own = _own(section)
    experiment = expand_layer(section.value.get("experiment", empty_layer()))
    return SuitePlan(
        name=stem,
        suite=validate(own, _Root).suite,
        section=own,
        base=merge(YamlNode(whole, tree.origin), experiment),
        overlays={key: _labelled(section, key) for key in _OVERLAYS},
        cli_overrides=of_cells,
        changed=(*([name] if foreign else []), *_changed(last)),
        file_seeds=_file_seeds(tree, of_suite),
    )


def _file_seeds(tree: YamlNode, given: YamlNode) -> tuple[int, ...]:
    """Return the seeds of a suite's file where the command line gives others."""
    own = cast("dict[str, YamlNode]", given.value).get(FOLDER)
    if own is None or not isinstance(own.value, dict) or "seeds" not in own.value:
        return ()
    section = cast("dict[str, YamlNode]", tree.value)[FOLDER]
    return tuple(validate(_own(expand_task_list(section, TASK_KEY)), _Root).suite.seeds)


def _found(name: str) -> tuple[str, YamlNode, bool]:
    """Return name and tree of a suite, and whether its file shadows the suite of that name."""
    known = suite_names()
    if name not in known and not name.endswith((".yaml", ".yml")):
        ours = f"experiment/{name}" in available_configs()
        hint = f"it is an experiment: robo-rl run {name}" if ours else did_you_mean(name, known)
        raise ConfigError(f"no suite '{name}'", hint=hint)
    tree = read_config(f"{FOLDER}/{name}" if name in known else name)
    stem = name.rpartition("/")[2].removesuffix(".yaml").removesuffix(".yml")
    return stem, tree, stem in known and read_config(f"{FOLDER}/{stem}").origin != tree.origin


def _parted(last: YamlNode) -> tuple[YamlNode, YamlNode]:
    """Split overrides into those of the suite and those of its cells.

    They are merged separately because the first merge determines the order. A stage that is named
    on the command line thus keeps its place of the file.
    """
    given = cast("dict[str, YamlNode]", last.value)
    own = {key: node for key, node in given.items() if key == FOLDER}
    rest = {key: node for key, node in given.items() if key != FOLDER}
    return YamlNode(own, last.origin), YamlNode(rest, last.origin)


def suite_names() -> list[str]:
    """Return the names of all available suites."""
    prefix = f"{FOLDER}/"
    return sorted(n.removeprefix(prefix) for n in available_configs() if n.startswith(prefix))


def _own(section: YamlNode) -> ConfigTree:
    """Return the suite's own settings; of overrides only labels, since cells check their values."""
    values = dict(section.value)
    if "pilots" in values and isinstance(values["pilots"].value, dict):
        pilots = _without_overrides(dict(values["pilots"].value))
        if "settings" in pilots:
            pilots["settings"] = blank_settings(pilots["settings"])
        values["pilots"] = YamlNode(pilots, values["pilots"].origin)
    values = _without_overrides(values)
    return resolve_tree(YamlNode({FOLDER: YamlNode(values, section.origin)}, section.origin))


def _without_overrides(values: dict[str, YamlNode]) -> dict[str, YamlNode]:
    """Return the settings of a suite, or of its pilots, with the labels of overrides alone."""
    for key in ("tasks", "methods"):
        if key in values and isinstance(values[key].value, dict):
            values[key] = _blanked(values[key])
    if "cells" in values and isinstance(values["cells"].value, dict):
        blank = {task: _blanked(node) for task, node in values["cells"].value.items()}
        values["cells"] = YamlNode(blank, values["cells"].origin)
    values.pop("experiment", None)
    return values


def _changed(last: YamlNode) -> Iterator[str]:
    """Yield the command-line overrides that change cells or their kept results, as KEY=VALUE."""
    for key, node in cast("dict[str, YamlNode]", last.value).items():
        if key != FOLDER:
            yield from _assignments((key,), node)
        elif isinstance(node.value, dict):
            for each, own in cast("dict[str, YamlNode]", node.value).items():
                if each not in _HARMLESS:
                    yield from _assignments((FOLDER, each), own)


def _assignments(path: tuple[str, ...], node: YamlNode) -> Iterator[str]:
    if isinstance(node.value, dict) and node.value:
        for key, each in cast("dict[str, YamlNode]", node.value).items():
            yield from _assignments((*path, key), each)
    else:
        yield f"{'.'.join(path)}={plain(node)}"


def _blanked(node: YamlNode) -> YamlNode:
    if not isinstance(node.value, dict):
        return node
    return YamlNode(
        {label: YamlNode({}, each.origin) for label, each in node.value.items()}, node.origin
    )


def _labelled(section: YamlNode, key: str) -> dict[str, YamlNode]:
    found = section.value.get(key, empty_layer()).value
    return cast("dict[str, YamlNode]", found) if isinstance(found, dict) else {}
