"""What a suite is: tasks × methods × seeds of one experiment, and what is reported of them.

A file in ``configs/suite/`` lands under the key ``suite``, what it is based on beside it:

    base: [policy/flow]                  # the experiment that all cells start from …
    experiment: {stages: {…}}            # … and what the suite changes of it
    tasks: {push: {env: {…}}}            # label → overrides
    methods: {default: {}, dppo: method/dppo, other: {base: [method/dppo], stages: {…}}}
    cells: {push: {dppo: {…}}}           # overrides of one task under one method
    seeds: [0, 1, 2]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, model_validator

from robo_rl.bench.suite.score_measures import MEASURES, ScoreMeasure
from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import ConfigError
from robo_rl.core.suggestions import did_you_mean
from robo_rl.train.evaluation.evaluate import Measure as Name

Label = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
"""A task's or a method's; also the name of a folder."""

Curve = Literal["training", "eval"]
"""Of training episodes, or of evaluations on the way."""

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
        "unscored",
        "machines",
    }
    | {"versions", "provenance"}
)
"""What a summary calls its other parts, beside the methods."""


class CellKey(NamedTuple):
    """Which cell."""

    task: str
    method: str
    seed: int

    def __str__(self) -> str:
        return f"{self.task} {self.method} {self.seed}"


class TimeRatioConfig(ConfigModel):
    """How many times as long ``slow`` takes to a success rate as ``fast`` does; the median."""

    fast: str = "default"
    """Method whose time is the denominator."""
    slow: str
    """Method whose time is the numerator."""
    threshold: float = Field(default=0.9, gt=0.0, le=1.0)
    """Success rate that both methods are timed to."""
    axis: Literal["seconds", "env_steps"] = "seconds"
    """What is compared."""


class SequentialTestConfig(ConfigModel):
    """Plan of the sequential test: seeds a group, number of groups, level of the family."""

    seeds_per_group: int = Field(default=3, ge=1)
    """Seeds of a group."""
    num_groups: int = Field(default=3, ge=1)
    """Number of groups."""
    alpha: float = Field(default=0.05, gt=0.0, lt=1.0)
    """Error level of the family of tests."""


class ReportConfig(ConfigModel):
    """What is reported.

    ``stage`` makes the policy that counts, and its curve: ``training`` is of the episodes that it
    learns from, ``clean`` of evaluations on the way without exploration, which the stage must be
    told to make (its ``probe``). ``student`` is the one-step policy beside it, if any. The curve is
    pooled over at least ``window`` episodes; ``thresholds`` are success rates on it. Its seconds
    are those of collecting and updating; those of the stages named in ``prior_stages`` are added in front,
    whether they were shared or not. ``reference`` is the method that others are compared with. A
    run whose last window of episodes is truly more than ``degradation_threshold`` below an earlier stretch counts as
    fallen (see ``falls``).
    """

    measure: Name = "success"
    """What scores an episode."""
    stage: str = "online"
    """Stage whose policy and curve are reported."""
    curve: Curve = "training"
    """Episodes that the curve is of."""
    student: str | None = "distill"
    """Stage that makes the one-step policy; null for none."""
    reference: str = "default"
    """Method that others are compared with."""
    thresholds: tuple[Annotated[float, Field(gt=0.0, le=1.0)], ...] = (0.8, 0.9, 0.95)
    """Success rates that methods are timed to."""
    window: int = Field(default=200, ge=1)
    """Least number of episodes of a point of the curve."""
    prior_stages: tuple[str, ...] = ()
    """Stages whose seconds are added to the curve's."""
    degradation_threshold: float = Field(default=0.05, gt=0.0)
    """Drop of success that counts as a collapse."""
    ratios: dict[str, TimeRatioConfig] = Field(default_factory=dict)
    """Name → ratio of two methods' times to report."""
    sequential: SequentialTestConfig = SequentialTestConfig()
    """Plan of the sequential test."""

    @property
    def score_measure(self) -> ScoreMeasure:
        """What ``measure`` names."""
        return MEASURES[self.measure]


class Suite(ConfigModel):
    """A suite without its overrides, of which only the labels are here.

    ``description`` says in a line what it shows, ``notes`` what else the page of results should say.
    ``shared`` stages are made once for all cells in which they would come out the same. ``jobs`` is
    how many cells run at once unless the command says so; seconds are only comparable under one
    number.
    """

    description: str = ""
    """One line on what the suite shows."""
    notes: str = ""
    """Further lines for the page of results."""
    experiment: dict[str, Any] = Field(default_factory=dict)
    """Overrides that all cells share."""
    tasks: dict[Label, Any] = Field(min_length=1)
    """Label → overrides of a task."""
    methods: dict[Label, Any] = Field(min_length=1)
    """Label → overrides of a method."""
    cells: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Task → method → overrides of one cell."""
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = Field(min_length=1)
    """Seeds that every task and method is run with."""
    shared: tuple[str, ...] = ("collect", "bc")
    """Stages that are run once for all cells in which they are the same."""
    jobs: int = Field(default=1, ge=1)
    """Cells that run at once."""
    report: ReportConfig = ReportConfig()
    """What the tables show."""

    @model_validator(mode="after")
    def _names_are_known(self) -> Suite:
        problems = list(self._unknown())
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _unknown(self) -> Iterator[str]:
        for task, methods in self.cells.items():
            yield from _check("cells", "task", task, self.tasks)
            for method in methods:
                yield from _check(f"cells.{task}", "method", method, self.methods)
        if len(self.methods) > 1 or self.report.ratios:
            yield from _check("report.reference", "method", self.report.reference, self.methods)
        for name, ratio in self.report.ratios.items():
            for method in (ratio.fast, ratio.slow):
                yield from _check(f"report.ratios.{name}", "method", method, self.methods)
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


def select_part(
    suite: Suite,
    tasks: Sequence[str] = (),
    methods: Sequence[str] = (),
    seeds: Sequence[int] = (),
    name: str = "",
) -> Suite:
    """A part of a suite; an empty choice is all of them. Seeds may be further ones than its own.

    Args:
        suite: The whole of it.
        tasks: Chosen.
        methods: Chosen.
        seeds: Chosen.
        name: Of the suite, for errors.

    Raises:
        ConfigError: The suite has no such task or method, or no run could have such a seed.
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
    """All cells, seeds outermost, so that a matrix that is cut short is balanced.

    Args:
        suite: Its tasks and methods.
        seeds: In place of its own.
    """
    return [
        CellKey(task, method, seed)
        for seed in (suite.seeds if seeds is None else seeds)
        for task in suite.tasks
        for method in suite.methods
    ]


def _check(where: str, kind: str, name: str, known: dict[str, Any]) -> Iterator[str]:
    if name not in known:
        yield f"{where}: no {kind} '{name}'; {did_you_mean(name, known)}"
