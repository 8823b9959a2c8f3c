"""A suite's cells, each a whole experiment of its own."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from robo_rl.bench.suite.config_layers import empty_layer, expand_layer
from robo_rl.bench.suite.label_checks import unknown_stage_labels
from robo_rl.bench.suite.suite import CellKey, Suite, cell_keys
from robo_rl.config.compose import resolve_tree
from robo_rl.config.merge import merge
from robo_rl.config.models import ConfigTree, validate
from robo_rl.config.yaml_nodes import YamlNode
from robo_rl.core.errors import ConfigError
from robo_rl.train.pipeline.experiment import HAS_RUN, Experiment
from robo_rl.train.pipeline.stage import stage_digest

FOLDER = "suite"
WAIVER = "a benchmark keeps what comes out and builds nothing on it"


@dataclass(frozen=True)
class Cell:
    """One experiment of a suite.

    Args:
        key: Which.
        experiment: With all gates waived that stop a run, called by seed and digest.
        digest: Hash of all that its result depends on.
        explicit_settings: What is set in files and overrides, without defaults.
        stage: Whose curves are kept.
    """

    key: CellKey
    experiment: Experiment
    digest: str
    explicit_settings: dict[str, Any] = field(compare=False)
    stage: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        """All that the result depends on, with defaults."""
        return self.experiment.model_dump(mode="json", exclude={"name", "waive"})


@dataclass(frozen=True)
class SuitePlan:
    """A suite with its overrides.

    Args:
        name: Of the suite, and of its folders of runs and results.
        suite: Labels, seeds, and what is reported.
        section: The same as it was written, with places.
        base: The experiment that all cells start from.
        overlays: ``tasks``, ``methods`` and ``cells``, label → node.
        cli_overrides: Overrides of the command line, over all.
        changed: What is not as in the published suite of that name: of its cells what the command
            line changed, by its keys, and a file elsewhere.
    """

    name: str
    suite: Suite
    section: ConfigTree
    base: YamlNode
    overlays: dict[str, dict[str, YamlNode]]
    cli_overrides: YamlNode
    changed: tuple[str, ...]

    def cell(self, key: CellKey, *, has_run: bool = False) -> Cell:
        """Compose and check one cell.

        Args:
            key: Which.
            has_run: So that whether it can run is not asked.

        Raises:
            ConfigError: All that does not fit, with its places.
        """
        tree = resolve_tree(self._node(key))
        experiment = validate(tree, Experiment, HAS_RUN if has_run else None)
        digest = stage_digest(experiment, len(experiment.stages) - 1)
        waive = {
            label: WAIVER
            for label, stage in experiment.stages.items()
            if stage.cls.waivable and stage.cls.stops
        }
        named = experiment.model_copy(update={"name": f"{key.seed}-{digest}", "waive": waive})
        return Cell(key, named, digest, tree.values, self.suite.report.stage)

    def cells(
        self, seeds: Sequence[int] | None = None, have_run: Container[CellKey] = ()
    ) -> dict[CellKey, Cell]:
        """All of them.

        Args:
            seeds: In place of the suite's.
            have_run: Cells of which it is not asked whether they can.

        Raises:
            ConfigError: All that does not fit in any of them, with its places.
        """
        found: dict[CellKey, Cell] = {}
        problems: dict[str, None] = {}
        for key in cell_keys(self.suite, seeds):
            try:
                found[key] = self.cell(key, has_run=key in have_run)
            except ConfigError as error:
                problems.update(dict.fromkeys(str(error).splitlines()))
        if not problems:
            problems.update(dict.fromkeys(self._misnamed(found)))
        if problems:
            raise ConfigError("\n".join(problems))
        return found

    def _misnamed(self, cells: Mapping[CellKey, Cell]) -> Iterator[str]:
        stages = {key: cell.experiment.stages for key, cell in cells.items()}
        for place, problem in unknown_stage_labels(self.suite, stages):
            path = (FOLDER, *place)
            yield f"{self.section.origin(path)} {'.'.join(path)}: {problem}"

    def _node(self, key: CellKey) -> YamlNode:
        own = self.overlays["cells"].get(key.task, empty_layer()).value
        layers = [self.overlays["tasks"][key.task], self.overlays["methods"][key.method]]
        layers += [own[key.method]] if key.method in own else []
        node = self.base
        for layer in layers:
            node = merge(node, expand_layer(layer))
        origin = f"suite {self.name}"
        fixed = {"name": YamlNode("cell", origin), "seed": YamlNode(key.seed, origin)}
        return merge(merge(node, self.cli_overrides, in_order=False), YamlNode(fixed, origin))
