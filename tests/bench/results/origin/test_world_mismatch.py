"""Cells of a suite are compared in one world: that of the newest."""

from __future__ import annotations

from typing import Any, cast

from small_runs import EXPERIMENT
from small_suites import kept

from robo_rl.bench.results.cell_record import CellRecord
from robo_rl.bench.results.origin.world_mismatch import world_mismatches
from robo_rl.bench.suite.plan import Cell
from robo_rl.bench.suite.suite import CellKey
from robo_rl.config.models import validate
from robo_rl.train.pipeline.experiment import Experiment

WORLD = {"robot": "a", "scene": "b", "task settings": "c", "env settings": "d"}


class Settings:
    """An experiment as far as a comparison of worlds looks at it."""

    def __init__(self, **task: Any) -> None:
        self.task = task

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return {"task": self.task, "env": {}}


def records(*worlds: dict[str, str]) -> dict[CellKey, CellRecord]:
    made = [
        kept("near", "default", seed, world=world, ended=f"2026-01-0{seed + 1}")
        for seed, world in enumerate(worlds)
    ]
    return {each.key: each for each in made}


def mismatches(*worlds: dict[str, str], **by_seed: str) -> dict[CellKey, str]:
    """Of cells of seeds 0, 1, …, whose settings of the task are in ``by_seed``, as ``s1='x'``."""
    found = records(*worlds)
    settings = {key: Settings(size=by_seed.get(f"s{key.seed}")) for key in found}
    cells = {key: Cell(key, cast(Any, settings[key]), "0123", {}) for key in found}
    return world_mismatches(cells, found)


def test_cells_of_another_world_are_named_with_what_differs():
    found = mismatches(WORLD, {**WORLD, "robot": "z", "scene": "y"}, WORLD)
    assert found == {CellKey("near", "default", 1): "robot: z → a"}


def test_the_newest_world_counts():
    moved = {**WORLD, "scene": "z"}
    assert [key.seed for key in mismatches(WORLD, WORLD, moved)] == [0, 1]


def test_other_settings_are_the_suites_own_and_no_other_world():
    other = {**WORLD, "task settings": "x", "scene": "y"}
    assert mismatches(WORLD, other, WORLD, s1="large") == {}


def test_a_new_option_with_a_default_is_no_other_world_and_hides_none():
    newer = {**WORLD, "task settings": "x", "env settings": "y"}
    assert mismatches(WORLD, newer) == {}
    assert mismatches({**WORLD, "other dim: env settings": "c"}, newer) == {}
    found = mismatches(WORLD, {**newer, "scene": "z"})
    assert found == {CellKey("near", "default", 0): "scene: b → z"}


def test_settings_without_effect_are_those_of_one_world():
    found = records(WORLD, {**WORLD, "scene": "z"})
    envs = [{"backend": {"name": "mujoco_cpu", "threads": n}} for n in (1, 2)]
    experiments = [validate({**EXPERIMENT, "env": env}, Experiment) for env in envs]
    cells = {key: Cell(key, experiments[key.seed], "0123", {}) for key in found}
    assert world_mismatches(cells, found) == {CellKey("near", "default", 0): "scene: b → z"}


def test_old_cells_whose_world_was_not_recorded_are_compared_as_before():
    assert mismatches({}, {}, {}) == {}
    assert mismatches({}, WORLD, {}) == {}
