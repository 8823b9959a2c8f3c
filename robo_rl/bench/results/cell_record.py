"""Record of a finished cell: one JSON file under ``benchmarks/results/SUITE/TASK/METHOD/``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator

from robo_rl.bench.results.run_conditions import RunConditions
from robo_rl.bench.suite.curves import Point
from robo_rl.bench.suite.former_defaults import FORMER, former_defaults
from robo_rl.bench.suite.pilots import PilotOrigin
from robo_rl.bench.suite.plan import Cell
from robo_rl.bench.suite.suite import CellKey, Curve
from robo_rl.config.differences import paths_without_effect, without_paths
from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import DataError

DELETE = "delete it, and the cell is run again"
FORMAT = 1
_PROCESSES = ("launch",)
"""Path of a setting on which no result depends, see ``stage_digest``."""

Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0.0)]


class CurveRow(NamedTuple):
    """A stored point of a curve, see ``curves.Point``; NaN is null."""

    env_steps: Count
    seconds: Seconds
    episodes: Count
    successes: Count
    returns: float | None


def _known(number: Any) -> Any:
    """Replace non-finite numbers by null, so that the file is valid JSON."""
    return None if isinstance(number, float) and not math.isfinite(number) else number


Number = Annotated[float | None, Field(strict=True), BeforeValidator(_known)]


class NumberRecord(ConfigModel):
    """A number with its interval, low ≤ value ≤ high; a fraction (unit 1) lies in [0, 1]."""

    value: Number
    low: Number = None
    high: Number = None
    n: Count | None = None
    unit: str = ""

    model_config = ConfigDict(extra="allow")

    @model_validator(mode="after")
    def _is_in_order(self) -> NumberRecord:
        least, most = (0.0, 1.0) if self.unit == "1" else (-math.inf, math.inf)
        ends = [end for end in (least, self.low, self.value, self.high, most) if end is not None]
        slack = 1e-9 * max(map(abs, ends[1:-1]), default=0.0)  # rounding of a mean
        if any(high < low - slack for low, high in pairwise(ends)):
            raise ValueError(f"{self.value} in [{self.low}, {self.high}] of unit '{self.unit}'")
        return self


def _said(number: Any) -> Any:
    """Validate numbers with a value; keep other entries of a report unchanged."""
    if isinstance(number, dict) and "value" in number:
        return NumberRecord.model_validate(number)
    if isinstance(number, dict):
        return {name: _said(each) for name, each in cast("dict[str, Any]", number).items()}
    return _known(number)


Said = Annotated[Any, BeforeValidator(_said)]


class StageResult(ConfigModel):
    """Result of a stage: seconds over all sessions, status, gate, and numbers with intervals.

    ``shared`` stages ran once for several cells; their seconds are those of that run. ``starts``
    holds the versions of every process of the stage. It has more than one entry after an
    interruption, and none if unknown.
    """

    seconds: Seconds
    status: str
    gate: str
    shared: bool
    starts: tuple[dict[str, str], ...] = ()
    numbers: dict[str, Said]


class CellRecord(ConfigModel):
    """A finished cell.

    ``config`` is the whole resolved experiment. ``stage`` is the stage of the curves, if recorded.
    ``curve`` holds the training curve (see ``curves.Point``), with null for NaN. ``clean`` holds
    the curve of evaluations during training, if any. ``jobs`` and ``threads`` are those of the last
    session; ``sittings`` holds the conditions of all sessions, empty if unknown. ``world`` has the
    parts of the world of the evaluation (see ``world_digest``). If it is empty, it was not
    recorded, and the protocol hashes do not cover it. ``carried`` says what ``tools/carry_results``
    changed in the record; empty for a record as its run wrote it. ``pilot`` is the pilot that chose
    the method's setting; null without pilots.
    """

    format: int = FORMAT
    suite: str
    task: str
    method: str
    seed: int
    digest: str
    stage: str = ""
    ended: str
    jobs: int
    threads: int
    sittings: tuple[RunConditions, ...] = ()
    versions: dict[str, str]
    world: dict[str, str] = Field(default_factory=dict)
    machine: dict[str, Any]
    stages: dict[str, StageResult]
    curve: tuple[CurveRow, ...]
    clean: tuple[CurveRow, ...] = ()
    config: dict[str, Any]
    carried: str = ""
    pilot: PilotOrigin | None = None

    @field_validator("curve", "clean")
    @classmethod
    def _succeeds_in_episodes(cls, rows: tuple[CurveRow, ...]) -> tuple[CurveRow, ...]:
        if any(row.successes > row.episodes for row in rows):
            raise ValueError("more successes than episodes")
        if any(b.env_steps < a.env_steps or b.seconds < a.seconds for a, b in pairwise(rows)):
            raise ValueError("it runs backwards")
        return rows

    @field_validator("config")
    @classmethod
    def _has_stages(cls, config: dict[str, Any]) -> dict[str, Any]:
        stages = config.get("stages", {})
        if not isinstance(stages, dict) or not all(isinstance(s, dict) for s in stages.values()):
            raise ValueError("its stages are no mapping of mappings")
        return config

    @property
    def key(self) -> CellKey:
        """Task, method and seed of the cell."""
        return CellKey(self.task, self.method, self.seed)

    @property
    def seconds(self) -> float:
        """Seconds of the stages that this cell ran itself."""
        return sum(stage.seconds for stage in self.stages.values() if not stage.shared)

    @property
    def shared_seconds(self) -> float:
        """Seconds of its shared stages."""
        return sum(stage.seconds for stage in self.stages.values() if stage.shared)

    @property
    def conditions(self) -> tuple[RunConditions, ...]:
        """Conditions of all known sessions."""
        last = RunConditions(
            jobs=self.jobs, threads=self.threads, version=self.versions.get("robo-rl", "")
        )
        return self.sittings or (last,)

    @property
    def commits(self) -> tuple[str, ...]:
        """Versions of robo-rl that made it: of the processes, if known."""
        noted = [start for stage in self.stages.values() for start in stage.starts]
        found = [start.get("robo-rl", "") for start in noted] or [
            p.version for p in self.conditions
        ]
        return tuple(dict.fromkeys(found))

    @property
    def interrupted(self) -> bool | None:
        """Whether more than one process worked on a stage; None if unknown."""
        starts = [len(stage.starts) for stage in self.stages.values()]
        if any(starts):
            return max(starts) > 1
        return True if len(self.sittings) > 1 else None

    def points(self, which: Curve = "training") -> list[Point]:
        """Return a curve."""
        rows = self.clean if which == "eval" else self.curve
        return [_point(*row) for row in rows]

    def matches_cell(self, cell: Cell) -> bool:
        """Return whether the record has the settings of a cell, and curves of the same stage.

        Settings without effect are ignored, and options that are newer than the record and not set
        in the suite, unless pilots chose the cell's setting after the record was made. The order of
        the stages must be equal.
        """
        if self.stage and self.stage != cell.stage:
            return False
        if self.digest == cell.digest:
            return True
        if cell.pilot is not None and self.pilot is None:
            return False
        idle = {_PROCESSES, *paths_without_effect(cell.experiment)}
        then, now = (without_paths(each, idle) for each in (self.config, cell.settings))
        same_order = list(then.get("stages", ())) == list(now.get("stages", ()))
        return same_order and settings_agree(then, now, cell.explicit_settings)

    def former_defaults(self, cell: Cell) -> dict[str, Any]:
        """Return the values of newer options that differ from their defaults in a cell."""
        same = self.digest == cell.digest
        return {} if same else former_defaults(self.config, cell.settings)


def _point(steps: int, seconds: float, episodes: int, good: int, returns: float | None) -> Point:
    return Point(steps, seconds, episodes, good, math.nan if returns is None else returns)


def settings_agree(kept: Any, now: Any, written: Any = None) -> bool:
    """Return whether settings agree, except newer options that are not set explicitly.

    A newer option that is set to what runs did before it (``FORMER``) agrees.
    """
    if not (isinstance(kept, dict) and isinstance(now, dict)):
        return kept == now
    then, current = cast("dict[str, Any]", kept), cast("dict[str, Any]", now)
    said = cast("dict[str, Any]", written) if isinstance(written, dict) else {}
    return then.keys() <= current.keys() and all(
        settings_agree(then[key], value, said.get(key))
        if key in then
        else key not in said or FORMER.get(key) == value
        for key, value in current.items()
    )


def read_json(path: Path, hint: str = DELETE) -> Mapping[str, Any]:
    """Read a JSON object.

    Raises:
        DataError: The file is not a JSON object.
    """
    try:
        found: Any = json.loads(path.read_text())
        if not isinstance(found, dict):
            raise ValueError("it holds no mapping")
    except (OSError, ValueError, RecursionError) as error:
        raise DataError("cannot be read", where=path, found=str(error), hint=hint) from error
    return cast("Mapping[str, Any]", found)
