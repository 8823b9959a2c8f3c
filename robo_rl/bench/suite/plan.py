"""Composes the cells of a suite, each a complete experiment."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from robo_rl.bench.suite.config_layers import empty_layer, expand_layer
from robo_rl.bench.suite.label_checks import unknown_stage_labels
from robo_rl.bench.suite.pilots import FOLDER as PILOTS
from robo_rl.bench.suite.pilots import (
    PilotOrigin,
    PilotsConfig,
    pilot_name,
    pilot_overlays,
    pilot_settings,
)
from robo_rl.bench.suite.suite import CellKey, Suite, cell_keys
from robo_rl.config.compose import resolve_tree
from robo_rl.config.differences import effective_settings
from robo_rl.config.merge import merge
from robo_rl.config.models import ConfigTree, digest, validate
from robo_rl.config.yaml_nodes import YamlNode
from robo_rl.core.errors import ConfigError
from robo_rl.train.pipeline.experiment import HAS_RUN, Experiment
from robo_rl.train.pipeline.stage_digest import stage_digest

FOLDER = "suite"
WAIVER = "a benchmark keeps what comes out and builds nothing on it"


@dataclass(frozen=True)
class Cell:
    """One experiment of a suite.

    Args:
        key: Task, method and seed.
        experiment: Experiment named by seed and digest, with waivers for all gates that would stop
            the run.
        digest: Hash of all that its result depends on.
        explicit_settings: Settings of files and overrides, without defaults.
        stage: Stage with the kept curves.
        pilot: Pilot that chose the method's setting; None without pilots.
    """

    key: CellKey
    experiment: Experiment
    digest: str
    explicit_settings: dict[str, Any] = field(compare=False)
    stage: str = ""
    pilot: PilotOrigin | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """All settings that the result depends on, with defaults.

        Waivers count of stages that choose their result themselves; others only go on.
        """
        stages = self.experiment.stages
        chosen = {k: why for k, why in self.experiment.waive.items() if not stages[k].cls.stops}
        told = self.experiment.model_dump(mode="json", exclude={"name", "waive"})
        return {**told, **({"waive": chosen} if chosen else {})}


@dataclass(frozen=True)
class SuitePlan:
    """A suite with its overrides.

    Args:
        name: Name of the suite and of its folders of runs and results.
        suite: Labels, seeds, and report.
        section: The suite's settings with their places in files.
        base: The experiment that all cells start from.
        overlays: ``tasks``, ``methods``, ``cells`` and ``pilots``, label → node.
        cli_overrides: Overrides of the command line, which take precedence.
        changed: Differences from the published suite of that name: changed keys of the command
            line, and a file in another place.
        settings: Method → overrides of its setting, that of a pilot or the chosen one.
        origins: Method → pilot that chose its setting.
        file_seeds: Seeds of the suite's file, without those of the command line; empty if equal.
    """

    name: str
    suite: Suite
    section: ConfigTree
    base: YamlNode
    overlays: dict[str, dict[str, YamlNode]]
    cli_overrides: YamlNode
    changed: tuple[str, ...]
    settings: dict[str, YamlNode] = field(default_factory=dict[str, YamlNode])
    origins: dict[str, PilotOrigin] = field(default_factory=dict[str, PilotOrigin])
    file_seeds: tuple[int, ...] = ()

    @property
    def command(self) -> str:
        """The command line that runs it."""
        return f"robo-rl bench {self.name.replace(f'/{PILOTS}', ' --pilots')}"

    @property
    def filed_suite(self) -> Suite:
        """The suite with the seeds of its file, which plan the looks of the sequential test."""
        return self.suite.model_copy(update={"seeds": self.file_seeds or self.suite.seeds})

    def pilot_plan(self) -> SuitePlan:
        """Return the suite of the pilots, in which ``NAME@i`` is setting i of method NAME.

        Raises:
            ConfigError: The suite has no pilots.
        """
        config, nodes = self.suite.pilots, self.overlays["pilots"]
        if config is None:
            where, hint = f"suite {self.name}", "run it without --pilots"
            raise ConfigError("has no pilots", where=where, hint=hint)
        settings = pilot_settings(nodes)
        report = self.suite.report.model_copy(
            update={"reference": next(iter(settings)), "ratios": {}}
        )
        suite = self.suite.model_copy(
            update={
                "tasks": config.tasks,
                "methods": {name: {} for name in settings},
                "cells": {},
                "seeds": config.seeds,
                "pilots": None,
                "report": report,
            }
        )
        return replace(
            self,
            name=f"{self.name}/{PILOTS}",
            suite=suite,
            base=merge(self.base, expand_layer(nodes.get("experiment", empty_layer()))),
            overlays=pilot_overlays(nodes, self.overlays["methods"]),
            settings=settings,
            file_seeds=(),
        )

    def settings_digest(self, method: str) -> str:
        """Return a hash of all that is written of a method's cells, without the command line."""
        written = replace(self, cli_overrides=empty_layer())
        keys = [key for key in cell_keys(self.suite) if key.method == method]
        return digest({str(key): resolve_tree(written._node(key)).values for key in keys})

    def cell(self, key: CellKey, *, has_run: bool = False) -> Cell:
        """Compose and check one cell.

        Args:
            key: Task, method and seed.
            has_run: Whether to skip the preflight, for a finished cell.

        Raises:
            ConfigError: The cell is invalid; the message lists all problems with their places.
        """
        tree = resolve_tree(self._node(key))
        experiment = validate(tree, Experiment, HAS_RUN if has_run else None)
        found = stage_digest(experiment, len(experiment.stages) - 1)
        stages = experiment.stages
        waive = {k: why for k, why in experiment.waive.items() if not stages[k].cls.stops}
        waive |= {
            k: WAIVER for k, stage in stages.items() if stage.cls.waivable and stage.cls.stops
        }
        named = experiment.model_copy(update={"name": f"{key.seed}-{found}", "waive": waive})
        origin = self.origins.get(key.method)
        return Cell(key, named, found, tree.values, self.suite.report.stage, origin)

    def cells(
        self, seeds: Sequence[int] | None = None, have_run: Container[CellKey] = ()
    ) -> dict[CellKey, Cell]:
        """Compose and check all cells.

        Args:
            seeds: Replace the suite's seeds; None keeps them.
            have_run: Finished cells, for which the preflight is skipped.

        Raises:
            ConfigError: Cells are invalid, or share task and seed with a pilot; the message lists
                all problems with their places.
        """
        found: dict[CellKey, Cell] = {}
        problems: dict[str, None] = {}
        for key in cell_keys(self.suite, seeds):
            try:
                found[key] = self.cell(key, has_run=key in have_run)
            except ConfigError as error:
                problems.update(dict.fromkeys(str(error).splitlines()))
        if not problems:
            problems.update(dict.fromkeys([*self._misnamed(found), *self._piloted(found)]))
        if problems:
            raise ConfigError("\n".join(problems))
        return found

    def _misnamed(self, cells: Mapping[CellKey, Cell]) -> Iterator[str]:
        stages = {key: cell.experiment.stages for key, cell in cells.items()}
        for place, problem in unknown_stage_labels(self.suite, stages):
            path = (FOLDER, *place)
            yield f"{self.section.origin(path)} {'.'.join(path)}: {problem}"

    def _piloted(self, cells: Mapping[CellKey, Cell]) -> Iterator[str]:
        """Yield the cells that share with a pilot the task, under whatever label, and a seed.

        Choices by the final score are made on its start states, which depend on ``eval.seed``.
        """
        config = self.suite.pilots
        if config is None:
            return
        pilots = self._pilot_experiments(config)
        where = f"{self.section.origin((FOLDER, PILOTS))} {FOLDER}.{PILOTS}"
        for key, cell in cells.items():
            reported = cell.experiment
            for task, pilot in pilots.items():
                worlds = [effective_settings(each).world() for each in (pilot, reported)]
                if task != key.task and worlds[0] != worlds[1]:
                    continue
                if key.seed in config.seeds:
                    yield f"{where}: pilot '{task}' has task and seed of the reported cell {key}"
                elif config.select_by == "final" and pilot.eval.seed == reported.eval.seed:
                    yield (
                        f"{where}: pilot '{task}' has task and start states of the reported cell"
                        f" {key}; set {PILOTS}.experiment.eval.seed"
                    )

    def _pilot_experiments(self, config: PilotsConfig) -> dict[str, Experiment]:
        """Return an experiment of each task of the pilots."""
        plan, first = self.pilot_plan(), next(iter(config.settings))
        keys = {task: CellKey(task, pilot_name(first, 0), config.seeds[0]) for task in config.tasks}
        return {task: plan.cell(key, has_run=True).experiment for task, key in keys.items()}

    def _node(self, key: CellKey) -> YamlNode:
        own = self.overlays["cells"].get(key.task, empty_layer()).value
        layers = [self.overlays["tasks"][key.task], self.overlays["methods"][key.method]]
        layers += [own[key.method]] if key.method in own else []
        layers += [self.settings[key.method]] if key.method in self.settings else []
        node = self.base
        for layer in layers:
            node = merge(node, expand_layer(layer))
        origin = f"suite {self.name}"
        fixed = {"name": YamlNode("cell", origin), "seed": YamlNode(key.seed, origin)}
        return merge(merge(node, self.cli_overrides, in_order=False), YamlNode(fixed, origin))
