"""What is kept of a finished cell: one JSON under ``benchmarks/results/SUITE/TASK/METHOD/``."""

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
from robo_rl.bench.suite.plan import Cell
from robo_rl.bench.suite.suite import CellKey, Curve
from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import DataError

DELETE = "delete it, and the cell is run again"
FORMAT = 1

Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0.0)]


class CurveRow(NamedTuple):
    """A point of a curve as it is kept, see ``curve.Point``; no number is null."""

    env_steps: Count
    seconds: Seconds
    episodes: Count
    successes: Count
    returns: float | None


def _known(number: Any) -> Any:
    """Numbers that are none are kept as null, so that the file stays JSON."""
    return None if isinstance(number, float) and not math.isfinite(number) else number


Number = Annotated[float | None, Field(strict=True), BeforeValidator(_known)]


class NumberRecord(ConfigModel):
    """A number with its interval, low ≤ value ≤ high; a share's (unit 1) lies in [0, 1]."""

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
        slack = 1e-9 * max(map(abs, ends[1:-1]), default=0.0)  # a mean's last digits
        if any(high < low - slack for low, high in pairwise(ends)):
            raise ValueError(f"{self.value} in [{self.low}, {self.high}] of unit '{self.unit}'")
        return self


def _said(number: Any) -> Any:
    """What has a value is checked; whatever else a stage reports is kept as it is."""
    if isinstance(number, dict) and "value" in number:
        return NumberRecord.model_validate(number)
    if isinstance(number, dict):
        return {name: _said(each) for name, each in cast("dict[str, Any]", number).items()}
    return _known(number)


Said = Annotated[Any, BeforeValidator(_said)]


class StageResult(ConfigModel):
    """A stage's report: seconds over all sittings, status, gate, numbers with intervals.

    ``shared``: it was made once for several cells; its seconds are those of that one time.
    ``starts``: versions of every process that worked on it; more than one where it was
    interrupted, unknown where it is empty.
    """

    seconds: Seconds
    status: str
    gate: str
    shared: bool
    starts: tuple[dict[str, str], ...] = ()
    numbers: dict[str, Said]


class CellRecord(ConfigModel):
    """A finished cell.

    ``config`` is the whole resolved experiment; ``stage`` that whose curves are kept, where that
    was noted; ``curve`` the rows of the training curve (see ``curve.Point``), null where there is
    no number; ``clean`` those of evaluations on the way, without exploration, where there were any;
    ``jobs`` and ``threads`` how many cells ran at once, and threads in each, in the sitting that
    ended it; ``sittings`` all that there were, unknown where it is empty. ``world`` has the parts
    of the world that it was measured in (see ``world_digest``); where it is empty that was not
    recorded, and the hashes of its protocols do not cover it.
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
        """Which cell."""
        return CellKey(self.task, self.method, self.seed)

    @property
    def seconds(self) -> float:
        """Of the stages that this cell ran itself."""
        return sum(stage.seconds for stage in self.stages.values() if not stage.shared)

    @property
    def shared_seconds(self) -> float:
        """Of the stages that it took up, made once for several cells."""
        return sum(stage.seconds for stage in self.stages.values() if stage.shared)

    @property
    def conditions(self) -> tuple[RunConditions, ...]:
        """Of all sittings that are known."""
        last = RunConditions(
            jobs=self.jobs, threads=self.threads, version=self.versions.get("robo-rl", "")
        )
        return self.sittings or (last,)

    @property
    def commits(self) -> tuple[str, ...]:
        """Versions of robo-rl that made it: of the processes, where they are known."""
        noted = [start for stage in self.stages.values() for start in stage.starts]
        found = [start.get("robo-rl", "") for start in noted] or [
            p.version for p in self.conditions
        ]
        return tuple(dict.fromkeys(found))

    @property
    def interrupted(self) -> bool | None:
        """Whether more than one process worked on a stage; None where nobody noted it."""
        starts = [len(stage.starts) for stage in self.stages.values()]
        if any(starts):
            return max(starts) > 1
        return True if len(self.sittings) > 1 else None

    def points(self, which: Curve = "training") -> list[Point]:
        """A curve."""
        rows = self.clean if which == "eval" else self.curve
        return [_point(*row) for row in rows]

    def matches_cell(self, cell: Cell) -> bool:
        """Whether it was made under the settings of a cell, and its curves are of the same stage.

        Options that came after it and that the suite does not set are as they were then; stages
        come in the same order.
        """
        if self.stage and self.stage != cell.stage:
            return False
        if self.digest == cell.digest:
            return True
        now = cell.settings
        same_order = list(self.config.get("stages", ())) == list(now.get("stages", ()))
        return same_order and settings_agree(self.config, now, cell.explicit_settings)


def _point(steps: int, seconds: float, episodes: int, good: int, returns: float | None) -> Point:
    return Point(steps, seconds, episodes, good, math.nan if returns is None else returns)


def settings_agree(kept: Any, now: Any, written: Any = None) -> bool:
    """Whether settings are those of now, options apart that came later and are not written."""
    if not (isinstance(kept, dict) and isinstance(now, dict)):
        return kept == now
    then, current = cast("dict[str, Any]", kept), cast("dict[str, Any]", now)
    said = cast("dict[str, Any]", written) if isinstance(written, dict) else {}
    return then.keys() <= current.keys() and all(
        settings_agree(then[key], value, said.get(key)) if key in then else key not in said
        for key, value in current.items()
    )


def read_json(path: Path, hint: str = DELETE) -> Mapping[str, Any]:
    """A JSON file of ours.

    Raises:
        DataError: It is none.
    """
    try:
        found: Any = json.loads(path.read_text())
        if not isinstance(found, dict):
            raise ValueError("it holds no mapping")
    except (OSError, ValueError, RecursionError) as error:
        raise DataError("cannot be read", where=path, found=str(error), hint=hint) from error
    return cast("Mapping[str, Any]", found)
