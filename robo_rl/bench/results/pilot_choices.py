"""The choice of a method's setting by its pilots, and the file that keeps it.

The rule is the suite's ``pilots.select_by``: ``final``, the highest mean final score over the
pilots' tasks and seeds, among equals the largest area under the curve over env steps; or ``area``,
which compares the two in the other order. Among equals of both, the first setting is chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, ValidationError

from robo_rl.bench.results.cell_record import CellRecord, read_json
from robo_rl.bench.results.scores import mean, score, score_before
from robo_rl.bench.suite.config_layers import expand_layer
from robo_rl.bench.suite.curves import Point
from robo_rl.bench.suite.pilots import (
    FOLDER,
    PilotOrigin,
    SelectBy,
    method_of,
    pilot_name,
    pilot_settings,
)
from robo_rl.bench.suite.plan import SuitePlan
from robo_rl.bench.suite.suite import CellKey, ReportConfig, cell_keys
from robo_rl.config.compose import plain
from robo_rl.config.models import ConfigModel
from robo_rl.core.atomic_files import make_directory, write_file
from robo_rl.core.errors import CheckpointError, DataError

FILE = "chosen.json"
_GRID = 200
_WORST = float("-inf")


class PilotTrial(ConfigModel):
    """A tried setting: its overrides, their results over all pilot cells, and its digest."""

    overrides: dict[str, Any]
    score: float | None
    area: float | None
    digest: str
    cells: dict[str, str] = Field(default_factory=dict)
    """Task and seed → digest of the pilot's cell."""


class PilotChoice(ConfigModel):
    """The trials of a method, and the index of the chosen one."""

    chosen: int = Field(ge=0)
    trials: tuple[PilotTrial, ...] = Field(min_length=1)


class PilotChoices(ConfigModel):
    """The choices of a suite's methods; ``rule`` states how they were made."""

    rule: str = "final"
    changed: tuple[str, ...] = ()
    """``SuitePlan.changed`` of the pilots; the choices hold where all of it is changed, too."""
    methods: dict[str, PilotChoice] = Field(default_factory=dict)

    @classmethod
    def read(cls, root: Path, suite: str, *, allow_damaged: bool = False) -> PilotChoices:
        """Read the choices of a suite from its results; empty without a file.

        Args:
            root: Folder of the results.
            suite: Name of the suite.
            allow_damaged: Whether a damaged file counts as none, because it is written anew.

        Raises:
            DataError: The file is damaged.
        """
        path = root / suite / FOLDER / FILE
        if not path.is_file():
            return cls()
        try:
            return cls._load(path, f"`robo-rl bench {suite} --pilots` writes it")
        except DataError:
            if allow_damaged:
                return cls()
            raise

    @classmethod
    def _load(cls, path: Path, hint: str) -> PilotChoices:
        try:
            return cls.model_validate(read_json(path, hint))
        except ValidationError as error:
            found = str(error.errors()[0]["msg"])
            raise DataError("holds no choices", where=path, found=found, hint=hint) from error

    def write(self, root: Path, suite: str) -> Path:
        """Write the choices among the results of a suite.

        Raises:
            CheckpointError: The file cannot be written.
        """
        path = root / suite / FOLDER / FILE
        try:
            make_directory(path.parent)
            write_file(path, self.model_dump_json(indent=1).encode() + b"\n")
        except OSError as error:
            problem = f"cannot be written: {error.strerror or error}"
            raise CheckpointError(problem, where=path) from error
        return path

    def valid(self, plan: SuitePlan) -> PilotChoices:
        """Return the choices among the current settings of a suite, by its current rule."""
        if plan.suite.pilots is None or not set(self.changed) <= set(plan.changed):
            return PilotChoices()
        pilots = plan.pilot_plan()
        rule = plan.suite.pilots.select_by
        good = {
            method: choice
            for method, choice in self.methods.items()
            if method in plan.suite.pilots.settings
            and choice.chosen == best_trial(choice.trials, rule)
            and [trial.digest for trial in choice.trials]
            == [
                pilots.settings_digest(pilot_name(method, i))
                for i in range(len(plan.suite.pilots.settings[method]))
            ]
        }
        return self.model_copy(update={"rule": rule, "methods": good})


def with_choices(plan: SuitePlan, choices: PilotChoices) -> SuitePlan:
    """Return a suite whose cells have the chosen settings."""
    if not choices.methods:
        return plan
    nodes = pilot_settings(plan.overlays["pilots"])
    settings = {m: nodes[pilot_name(m, each.chosen)] for m, each in choices.methods.items()}
    origins = {
        method: PilotOrigin(
            pilot=pilot_name(method, each.chosen),
            of=len(each.trials),
            digest=each.trials[each.chosen].digest,
        )
        for method, each in choices.methods.items()
    }
    return replace(plan, settings=settings, origins=origins)


def choose_settings(
    pilots: SuitePlan, kept: Mapping[CellKey, CellRecord], rule: SelectBy
) -> PilotChoices:
    """Choose a setting of every method whose pilots are all kept.

    Args:
        pilots: ``SuitePlan.pilot_plan()``.
        kept: Kept pilots of the current settings.
        rule: ``pilots.select_by`` of the suite.
    """
    report, names = pilots.suite.report, list(pilots.suite.methods)
    choices: dict[str, PilotChoice] = {}
    for method in dict.fromkeys(map(method_of, names)):
        own = [name for name in names if method_of(name) == method]
        keys = [key for key in cell_keys(pilots.suite) if key.method in own]
        if all(key in kept for key in keys):
            ends = _ends({key: kept[key] for key in keys}, report)
            trials = [_trial(pilots, name, kept, ends) for name in own]
            choices[method] = PilotChoice(chosen=best_trial(trials, rule), trials=tuple(trials))
    return PilotChoices(rule=rule, changed=pilots.changed, methods=choices)


def best_trial(trials: Sequence[PilotTrial], rule: SelectBy) -> int:
    """Return the index of the best trial by a rule; a trial without a number is the worst."""

    def rank(index: int) -> tuple[float, float, int]:
        found = trials[index].score, trials[index].area
        score, area = (_WORST if number is None else number for number in found)
        return (score, area, -index) if rule == "final" else (area, score, -index)

    return max(range(len(trials)), key=rank)


def curve_area(points: Sequence[Point], end: int, report: ReportConfig) -> float | None:
    """Return the mean of a curve over env steps 0 to ``end``; None without a full window.

    The first value holds before it, the last one after it, as of a run that stopped early.
    """
    values = np.array(report.score_measure.pooled_curve(points, report.window))
    known = ~np.isnan(values)
    if not known.any():
        return None
    steps = np.array([point.env_steps for point in points], dtype=np.float64)
    grid = np.linspace(0.0, end, _GRID)
    return float(np.interp(grid, steps[known], values[known]).mean())


def _ends(kept: Mapping[CellKey, CellRecord], report: ReportConfig) -> dict[tuple[str, int], int]:
    """Return the last env step of any pilot, by task and seed."""
    found: dict[tuple[str, int], int] = {}
    for key, each in kept.items():
        last = max((point.env_steps for point in each.points(report.curve)), default=0)
        found[key.task, key.seed] = max(last, found.get((key.task, key.seed), 0))
    return found


def _trial(
    pilots: SuitePlan,
    name: str,
    kept: Mapping[CellKey, CellRecord],
    ends: Mapping[tuple[str, int], int],
) -> PilotTrial:
    report = pilots.suite.report
    own = {key: kept[key] for key in cell_keys(pilots.suite) if key.method == name}
    areas = [area(each, ends[key.task, key.seed], report) for key, each in own.items()]
    return PilotTrial(
        overrides=plain(expand_layer(pilots.settings[name])),
        score=_mean(score(each, report) for each in own.values()),
        area=_mean(areas),
        digest=pilots.settings_digest(name),
        cells={f"{key.task} {key.seed}": each.digest for key, each in own.items()},
    )


def area(kept: CellRecord, end: int, report: ReportConfig) -> float | None:
    """Return ``curve_area`` as a score, so that returns of different tasks can be averaged."""
    found = curve_area(kept.points(report.curve), end, report)
    if found is None:
        return None
    return report.score_measure.score_of(found, score_before(kept, report))


def _mean(values: Iterable[float | None]) -> float | None:
    found = mean(values)
    return None if found is None else round(found, 6)
