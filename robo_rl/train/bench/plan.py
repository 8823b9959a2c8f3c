"""From a suite's file to its cells, each a whole experiment of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from robo_rl.compose import overlay, tree_of
from robo_rl.config import ConfigModel, ConfigTree, validate
from robo_rl.config_files import available, read
from robo_rl.config_merge import merge
from robo_rl.errors import ConfigError
from robo_rl.naming import did_you_mean
from robo_rl.train.bench.labels import misnamed
from robo_rl.train.bench.suite import Key, Suite, keys
from robo_rl.train.experiment import Experiment
from robo_rl.train.stage import stage_digest
from robo_rl.yaml_tree import Node

FOLDER = "suite"
WAIVER = "a benchmark keeps what comes out and builds nothing on it"

_OVERLAYS = ("experiment", "tasks", "methods", "cells")
_HARMLESS = ("seeds", "jobs", "about", "notes")
"""Settings of a suite that leave its cells, and what is kept of them, as they are."""


@dataclass(frozen=True)
class Cell:
    """One experiment of a suite.

    Args:
        key: Which.
        experiment: With all gates waived, called by seed and digest.
        digest: Hash of all that its result depends on.
        written: What is set in files and overrides, without defaults.
        stage: Whose curves are kept.
    """

    key: Key
    experiment: Experiment
    digest: str
    written: dict[str, Any] = field(compare=False)
    stage: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        """All that the result depends on, with defaults."""
        return self.experiment.model_dump(mode="json", exclude={"name", "waive"})


@dataclass(frozen=True)
class Plan:
    """A suite with its overrides.

    Args:
        name: Of the suite, and of its folders of runs and results.
        suite: Labels, seeds, and what is reported.
        section: The same as it was written, with places.
        base: The experiment that all cells start from.
        overlays: ``tasks``, ``methods`` and ``cells``, label → node.
        last: Overrides of the command line, over all.
        changed: What is not as in the published suite of that name: of its cells what the command
            line changed, by its keys, and a file elsewhere.
    """

    name: str
    suite: Suite
    section: ConfigTree
    base: Node
    overlays: dict[str, dict[str, Node]]
    last: Node
    changed: tuple[str, ...]

    def cell(self, key: Key) -> Cell:
        """Compose and check one cell.

        Raises:
            ConfigError: All that does not fit, with its places.
        """
        tree = tree_of(self._node(key))
        experiment = validate(tree, Experiment)
        digest = stage_digest(experiment, len(experiment.stages) - 1)
        waive = {
            label: WAIVER
            for label, stage in experiment.stages.items()
            if getattr(stage.cls, "waivable", True)
        }
        named = experiment.model_copy(update={"name": f"{key.seed}-{digest}", "waive": waive})
        return Cell(key, named, digest, tree.values, self.suite.report.stage)

    def cells(self, seeds: Sequence[int] | None = None) -> dict[Key, Cell]:
        """All of them.

        Args:
            seeds: In place of the suite's.

        Raises:
            ConfigError: All that does not fit in any of them, with its places.
        """
        found: dict[Key, Cell] = {}
        problems: dict[str, None] = {}
        for key in keys(self.suite, seeds):
            try:
                found[key] = self.cell(key)
            except ConfigError as error:
                problems.update(dict.fromkeys(str(error).splitlines()))
        if not problems:
            problems.update(dict.fromkeys(self._misnamed(found)))
        if problems:
            raise ConfigError("\n".join(problems))
        return found

    def _misnamed(self, cells: Mapping[Key, Cell]) -> Iterator[str]:
        stages = {key: cell.experiment.stages for key, cell in cells.items()}
        for place, problem in misnamed(self.suite, stages):
            path = (FOLDER, *place)
            yield f"{self.section.origin(path)} {'.'.join(path)}: {problem}"

    def _node(self, key: Key) -> Node:
        own = self.overlays["cells"].get(key.task, _nothing()).value
        layers = [self.overlays["tasks"][key.task], self.overlays["methods"][key.method]]
        layers += [own[key.method]] if key.method in own else []
        node = self.base
        for layer in layers:
            node = merge(node, _expanded(layer))
        origin = f"suite {self.name}"
        fixed = {"name": Node("cell", origin), "seed": Node(key.seed, origin)}
        return merge(merge(node, self.last), Node(fixed, origin))


class _Root(ConfigModel):
    suite: Suite


def load_plan(name: str, overrides: Sequence[str] = ()) -> Plan:
    """Read a suite.

    Args:
        name: ``metaworld_dev``, or a file's path.
        overrides: ``key=value``: of the experiment, of every cell; ``suite.seeds=[0]`` and so on,
            of the suite itself.

    Raises:
        ConfigError: It is missing, is none, or does not fit.
    """
    known = names()
    if name not in known and not name.endswith((".yaml", ".yml")):
        raise ConfigError(f"no suite '{name}'", hint=did_you_mean(name, known))
    tree = read(f"{FOLDER}/{name}" if name in known else name)
    stem = name.rpartition("/")[2].removesuffix(".yaml").removesuffix(".yml")
    foreign = [name] if stem in known and _is_another(stem, tree) else []
    last = overlay(overrides)
    whole = dict(cast("dict[str, Node]", merge(tree, last).value))
    if FOLDER not in whole or not isinstance(whole[FOLDER].value, dict):
        raise ConfigError("is no suite", where=tree.origin, expected="a key 'suite'")
    section = whole.pop(FOLDER)
    overlays = {key: _labelled(section, key) for key in _OVERLAYS[1:]}
    own = _own(section)
    base = merge(Node(whole, tree.origin), _expanded(section.value.get("experiment", _nothing())))
    rest = {key: node for key, node in last.value.items() if key != FOLDER}
    return Plan(
        name=stem,
        suite=validate(own, _Root).suite,
        section=own,
        base=base,
        overlays=overlays,
        last=Node(rest, last.origin),
        changed=(*foreign, *_changed(last)),
    )


def names() -> list[str]:
    """All suites at hand."""
    prefix = f"{FOLDER}/"
    return sorted(n.removeprefix(prefix) for n in available() if n.startswith(prefix))


def _own(section: Node) -> ConfigTree:
    """The suite's own settings; of overrides only the labels, since they are checked in cells."""
    values = dict(section.value)
    for key in ("tasks", "methods"):
        if key in values and isinstance(values[key].value, dict):
            values[key] = _blanked(values[key])
    if "cells" in values and isinstance(values["cells"].value, dict):
        blank = {task: _blanked(node) for task, node in values["cells"].value.items()}
        values["cells"] = Node(blank, values["cells"].origin)
    values.pop("experiment", None)
    return tree_of(Node({FOLDER: Node(values, section.origin)}, section.origin))


def _is_another(stem: str, tree: Node) -> bool:
    """Whether a suite's file is not the one that is found by its name."""
    return read(f"{FOLDER}/{stem}").origin != tree.origin


def _changed(last: Node) -> Iterator[str]:
    """Keys of the command line's overrides that change cells, or what is kept of them."""
    for key, node in cast("dict[str, Node]", last.value).items():
        if key != FOLDER:
            yield key
        elif isinstance(node.value, dict):
            own = cast("dict[str, Node]", node.value)
            yield from (f"{FOLDER}.{each}" for each in own if each not in _HARMLESS)


def _blanked(node: Node) -> Node:
    if not isinstance(node.value, dict):
        return node
    return Node({label: Node({}, each.origin) for label, each in node.value.items()}, node.origin)


def _labelled(section: Node, key: str) -> dict[str, Node]:
    found = section.value.get(key, _nothing()).value
    return cast("dict[str, Node]", found) if isinstance(found, dict) else {}


def _expanded(node: Node) -> Node:
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


def _nothing() -> Node:
    return Node({}, "")
