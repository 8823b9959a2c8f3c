"""Shared stages of several cells: run once and copied to each cell.

A stage's digest covers all that its result depends on. Cells with equal digests would collect the
same demonstrations and clone the same policy. A separate run, which ends after the shared stage,
makes the result once. It is copied into the runs of the cells, and the pipeline skips the stage.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from robo_rl.bench.results.run_conditions import add_conditions, conditions_of
from robo_rl.bench.suite.plan import Cell
from robo_rl.bench.suite.suite import CellKey
from robo_rl.core.atomic_files import staged_directory
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.run_directory import stage_folder
from robo_rl.train.pipeline.stage import REPORT
from robo_rl.train.pipeline.stage_digest import stage_digest
from robo_rl.train.pipeline.world_digest import changed_parts, read_world, world_of


@dataclass(frozen=True)
class SharedStages:
    """The first stages of several cells.

    Args:
        name: Name of the run: task, seed, and the last stage's digest.
        task_and_seed: Task and seed that the cells have in common.
        labels: Labels of the stages.
        experiment: Experiment with these stages only.
        parent: Shared stages that it starts from; None without.
    """

    name: str
    task_and_seed: tuple[str, int]
    labels: tuple[str, ...]
    experiment: Experiment
    parent: SharedStages | None

    def is_done(self, root: Path) -> bool:
        """Return whether its last stage is finished, in the present world.

        A run of another world is not done: it is started, and refused by its name.
        """
        last = root / self.name / stage_folder(len(self.labels) - 1, self.labels[-1])
        if not (last / REPORT).is_file():
            return False
        return not changed_parts(read_world(last), world_of(self.experiment))


def find_shared_stages(cells: Iterable[Cell], labels: Sequence[str]) -> dict[CellKey, SharedStages]:
    """Return the longest shared prefix of every cell that has one.

    Args:
        cells: All cells of a suite, whether or not they run.
        labels: Stages that may be shared, as far as a cell begins with them.
    """
    users: dict[str, list[CellKey]] = {}
    digests: dict[CellKey, list[str]] = {}
    of = {cell.key: cell for cell in cells}
    for key, cell in of.items():
        digests[key] = [stage_digest(cell.experiment, i) for i in range(_common(cell, labels))]
        for digest in digests[key]:
            users.setdefault(digest, []).append(key)
    made: dict[str, SharedStages] = {}
    found: dict[CellKey, SharedStages] = {}
    for key, cell in of.items():
        for index, digest in enumerate(digests[key]):
            following = digests[key][index + 1 : index + 2]
            alone = len(users[digest]) < 2
            if alone or (following and len(users[following[0]]) == len(users[digest])):
                continue
            if digest not in made:
                made[digest] = _share(cell, index, digest, found.get(key))
            found[key] = made[digest]
    return found


def copy_shared_stages(share: SharedStages, root: Path, run: Path) -> None:
    """Copy finished shared stages into a run that lacks them, with their run conditions.

    Args:
        share: Finished shared stages.
        root: Folder of the shared runs.
        run: Directory of the run.

    Raises:
        DataError: The recorded conditions are damaged.
        OSError: A stage cannot be copied; copied stages are complete.
    """
    add_conditions(run, conditions_of(root / share.name))
    for index, label in enumerate(share.labels):
        folder = stage_folder(index, label)
        if (run / folder / REPORT).exists():
            continue
        with staged_directory(run / folder) as stage:
            source = root / share.name / folder
            # a finished stage does not need its checkpoints
            shutil.copytree(
                source, stage, dirs_exist_ok=True, ignore=shutil.ignore_patterns("ckpt")
            )


def _common(cell: Cell, labels: Sequence[str]) -> int:
    """Return with how many of these stages the cell begins."""
    pairs = zip(cell.experiment.stages, labels, strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))


def _share(cell: Cell, index: int, digest: str, parent: SharedStages | None) -> SharedStages:
    stages = dict(list(cell.experiment.stages.items())[: index + 1])
    waive = {k: why for k, why in cell.experiment.waive.items() if k in stages}
    name = f"{cell.key.task}.{cell.key.seed}.{digest}"
    changes = {"name": name, "stages": stages, "waive": waive}
    lot = cell.key.task, cell.key.seed
    return SharedStages(
        name, lot, tuple(stages), cell.experiment.model_copy(update=changes), parent
    )
