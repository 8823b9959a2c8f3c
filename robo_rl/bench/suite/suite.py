"""Schema of a suite: tasks × methods × seeds of one experiment, and its report.

A file in ``configs/suite/`` holds the key ``suite`` beside its bases:

    base: [policy/flow]                  # the experiment that all cells start from …
    experiment: {stages: {…}}            # … and what the suite changes of it
    tasks: {push: {env: {…}}}            # label → overrides, or names alone: [push-v3, reach-v3]
    methods: {default: {}, dppo: method/dppo, other: {base: [method/dppo], stages: {…}}}
    cells: {push: {dppo: {…}}}           # overrides of one task under one method
    seeds: [0, 1, 2]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, model_validator

from robo_rl.bench.suite.labels import Label, unknown_label
from robo_rl.bench.suite.pilots import FOLDER, PilotsConfig
from robo_rl.bench.suite.score_measures import MEASURES, ScoreMeasure
from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import ConfigError
from robo_rl.core.suggestions import did_you_mean
from robo_rl.train.evaluation.evaluate import Measure as Name

TASK_KEY = "env.task"
"""Key that a list of tasks overrides by default."""

Curve = Literal["training", "eval"]
"""Curve of training episodes, or of evaluations during training."""

RESERVED = frozenset(
    {
        "suite",
        "tasks",
        "ratios",
        "sequential",
        "missing",
        "stale",
        "other_world",
        "world_unknown",
        "former_defaults",
        "unscored",
        "machines",
        "pilots",
    }
    | {"versions", "provenance"}
)
"""Keys of a summary that are not methods."""


class CellKey(NamedTuple):
    """Task, method and seed of a cell."""

    task: str
    method: str
    seed: int

    def __str__(self) -> str:
        return f"{self.task} {self.method} {self.seed}"


class TimeRatioConfig(ConfigModel):
    """Ratio of the times of two methods to a success rate; the median over runs."""

    fast: str = "default"
    """Method whose time is the denominator."""
    slow: str
    """Method whose time is the numerator."""
    threshold: float = Field(default=0.9, gt=0.0, le=1.0)
    """Success rate that both methods are timed to."""
    axis: Literal["seconds", "env_steps"] = "seconds"
    """Axis of the comparison."""
    prior_stages: tuple[str, ...] = ()
    """Further stages with seconds that are added to those of both methods."""

    @model_validator(mode="after")
    def _stages_in_front_have_seconds(self) -> TimeRatioConfig:
        if self.prior_stages and self.axis != "seconds":
            raise ValueError(f"prior_stages: expected axis 'seconds', found '{self.axis}'")
        return self


class SequentialTestConfig(ConfigModel):
    """Plan of the sequential test: seeds per group, number of groups, level of the family."""

    seeds_per_group: int = Field(default=3, ge=1)
    """Seeds of a group."""
    num_groups: int = Field(default=3, ge=1)
    """Number of groups."""
    alpha: float = Field(default=0.05, gt=0.0, lt=1.0)
    """Error level of the family of tests."""


class ReportConfig(ConfigModel):
    """What is reported.

    ``stage`` makes the reported policy and its curve. The curve ``training`` shows training
    episodes. The curve ``eval`` shows evaluations during training without exploration, which need
    the stage's ``periodic_eval``. ``student`` is the stage of the one-step policy, if any.

    The curve is pooled over at least ``window`` episodes; ``thresholds`` are success rates on it.
    Its seconds are those of collecting and updating, plus those of the stages in ``prior_stages``,
    shared or not. ``reference`` is the method that others are compared with. A run counts as
    degraded if its last window is significantly more than ``degradation_threshold`` below an
    earlier stretch (see ``degradation``).
    """

    measure: Name = "success"
    """Measure that scores an episode."""
    stage: str = "online"
    """Stage that makes the reported policy and curve."""
    curve: Curve = "training"
    """Episodes of the curve: ``training`` or ``eval``."""
    student: str | None = "distill"
    """Stage that makes the one-step policy; null for none."""
    reference: str = "default"
    """Method that others are compared with."""
    thresholds: tuple[Annotated[float, Field(gt=0.0, le=1.0)], ...] = (0.8, 0.9, 0.95)
    """Success rates that methods are timed to."""
    window: int = Field(default=200, ge=1)
    """Minimum number of episodes of a point of the curve."""
    prior_stages: tuple[str, ...] = ()
    """Stages with seconds that are added to the curve's."""
    degradation_threshold: float = Field(default=0.05, gt=0.0)
    """Drop of success that counts as degradation."""
    floor: float | None = Field(default=None, gt=0.0, le=1.0)
    """Success below which tasks are listed, beside mean and worst task; null for no list."""
    causes: dict[str, str] = Field(default_factory=dict)
    """Task → cause of its success below the floor, for that list."""
    ratios: dict[str, TimeRatioConfig] = Field(default_factory=dict)
    """Name → ratio of two methods' times to report."""
    sequential: SequentialTestConfig = SequentialTestConfig()
    """Plan of the sequential test."""

    @property
    def score_measure(self) -> ScoreMeasure:
        """The measure that ``measure`` names."""
        return MEASURES[self.measure]


class Suite(ConfigModel):
    """A suite without its overrides, of which only the labels are kept.

    ``description`` summarises the suite in a line; ``notes`` are for the results page. ``shared``
    stages run once for all cells in which they are equal. ``jobs`` is the default number of cells
    at once. Seconds are comparable only for one number of jobs.
    """

    description: str = ""
    """One line on what the suite shows."""
    notes: str = ""
    """Further text for the results page."""
    experiment: dict[str, Any] = Field(default_factory=dict)
    """Overrides that all cells share."""
    tasks: dict[Label, Any] = Field(min_length=1)
    """Label → overrides of a task; or a list of values of ``task_key``, each its own label."""
    task_key: str = TASK_KEY
    """Dotted key that a list of ``tasks`` overrides."""
    timed_like: str = ""
    """Suite whose kept cells estimate durations, as long as none of this suite is kept."""
    methods: dict[Label, Any] = Field(min_length=1)
    """Label → overrides of a method."""
    cells: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Task → method → overrides of one cell."""
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = Field(min_length=1)
    """Seeds of every task and method."""
    shared: tuple[str, ...] = ("collect", "bc")
    """Stages that run once for all cells in which they are equal."""
    jobs: int = Field(default=1, ge=1)
    """Number of cells at once."""
    pilots: PilotsConfig | None = None
    """Runs that choose a setting of every method before the reported runs; null for none."""
    report: ReportConfig = ReportConfig()
    """Contents of the tables."""

    @model_validator(mode="after")
    def _names_are_known(self) -> Suite:
        problems = list(self._unknown())
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _unknown(self) -> Iterator[str]:
        for task, methods in self.cells.items():
            yield from unknown_label("cells", "task", task, self.tasks)
            for method in methods:
                yield from unknown_label(f"cells.{task}", "method", method, self.methods)
        if len(self.methods) > 1 or self.report.ratios:
            yield from unknown_label(
                "report.reference", "method", self.report.reference, self.methods
            )
        for task in self.report.causes:
            yield from unknown_label("report.causes", "task", task, self.tasks)
        if self.report.floor is not None and not self.report.score_measure.is_rate:
            yield f"report.floor: of success, but report.measure is '{self.report.measure}'"
        for name, ratio in self.report.ratios.items():
            for method in (ratio.fast, ratio.slow):
                yield from unknown_label(f"report.ratios.{name}", "method", method, self.methods)
            if name in self.methods:
                yield f"report.ratios.{name}: is the name of a method"
        if self.report.ratios and not self.report.score_measure.is_rate:
            of = f"but report.measure is '{self.report.measure}'"
            yield f"report.ratios: of times to a success rate, {of}"
        for name in [*self.methods, *self.report.ratios]:
            if name in RESERVED:
                yield f"'{name}' is the name of another part of the summary"
        if len(set(self.seeds)) < len(self.seeds):
            yield "seeds: one is there twice"
        if self.pilots is not None:
            yield from self.pilots.unknown(self.methods)
            if FOLDER in self.tasks:
                yield f"tasks: '{FOLDER}' is the folder of the pilots"


def select_part(
    suite: Suite,
    tasks: Sequence[str] = (),
    methods: Sequence[str] = (),
    seeds: Sequence[int] = (),
    name: str = "",
) -> Suite:
    """Return a part of a suite; an empty selection means all. Further seeds are allowed.

    Args:
        suite: The whole suite.
        tasks: Selected tasks.
        methods: Selected methods.
        seeds: Selected seeds.
        name: Name of the suite, for errors.

    Raises:
        ConfigError: The suite has no such task or method, or a seed is negative.
    """
    for kind, chosen, known in (("task", tasks, suite.tasks), ("method", methods, suite.methods)):
        for label in chosen:
            if label not in known:
                problem = f"the suite has no {kind} '{label}'"
                where = f"{name} --{kind}".strip()
                raise ConfigError(problem, where=where, hint=did_you_mean(label, known))
    for seed in seeds:
        if seed < 0:
            raise ConfigError("no seed", where="--seeds", expected="0 or more", found=seed)
    further = sorted(set(seeds) - set(suite.seeds))
    own = (seed for seed in suite.seeds if not seeds or seed in seeds)
    return suite.model_copy(
        update={
            "tasks": {task: {} for task in suite.tasks if not tasks or task in tasks},
            "methods": {method: {} for method in suite.methods if not methods or method in methods},
            "seeds": (*own, *further),
        }
    )


def cell_keys(suite: Suite, seeds: Sequence[int] | None = None) -> list[CellKey]:
    """Return all cells, ordered by seed first, so that an interrupted suite is balanced.

    Args:
        suite: Suite with tasks and methods.
        seeds: Replace the suite's seeds; None keeps them.
    """
    return [
        CellKey(task, method, seed)
        for seed in (suite.seeds if seeds is None else seeds)
        for task in suite.tasks
        for method in suite.methods
    ]
