"""What is kept of a finished cell: one JSON under ``benchmarks/results/SUITE/TASK/METHOD/``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

from robo_rl.config import ConfigModel
from robo_rl.errors import DataError
from robo_rl.train.bench.curve import Point, looks, thinned
from robo_rl.train.bench.paces import Pace, paces
from robo_rl.train.bench.plan import Cell
from robo_rl.train.bench.suite import Curve, Key
from robo_rl.train.logger import read_metrics
from robo_rl.train.pipeline import RUN, stage_folder
from robo_rl.train.stage import Report
from robo_rl.train.starts import starts

DELETE = "delete it, and the cell is run again"

Row = tuple[int, float, int, int, float | None]


class KeptStage(ConfigModel):
    """A stage's report: seconds over all sittings, status, gate, numbers with intervals.

    ``shared``: it was made once for several cells; its seconds are those of that one time.
    ``starts``: versions of every process that worked on it; more than one where it was
    interrupted, unknown where it is empty.
    """

    seconds: float
    status: str
    gate: str
    shared: bool
    starts: tuple[dict[str, str], ...] = ()
    numbers: dict[str, Any]


class Kept(ConfigModel):
    """A finished cell.

    ``config`` is the whole resolved experiment; ``stage`` that whose curves are kept, where that
    was noted; ``curve`` the rows of the training curve (see ``curve.Point``), null where there is
    no number; ``clean`` those of evaluations on the way, without exploration, where there were any;
    ``jobs`` and ``threads`` how many cells ran at once, and threads in each, in the sitting that
    ended it; ``sittings`` all that there were, unknown where it is empty.
    """

    suite: str
    task: str
    method: str
    seed: int
    digest: str
    stage: str = ""
    ended: str
    jobs: int
    threads: int
    sittings: tuple[Pace, ...] = ()
    versions: dict[str, str]
    machine: dict[str, Any]
    stages: dict[str, KeptStage]
    curve: tuple[Row, ...]
    clean: tuple[Row, ...] = ()
    config: dict[str, Any]

    @property
    def key(self) -> Key:
        """Which cell."""
        return Key(self.task, self.method, self.seed)

    @property
    def seconds(self) -> float:
        """Of the stages that this cell ran itself."""
        return sum(stage.seconds for stage in self.stages.values() if not stage.shared)

    @property
    def paces(self) -> tuple[Pace, ...]:
        """Of all sittings that are known."""
        last = Pace(jobs=self.jobs, threads=self.threads, version=self.versions.get("robo-rl", ""))
        return self.sittings or (last,)

    @property
    def commits(self) -> tuple[str, ...]:
        """Versions of robo-rl that made it: of the processes, where they are known."""
        noted = [start for stage in self.stages.values() for start in stage.starts]
        found = [start.get("robo-rl", "") for start in noted] or [p.version for p in self.paces]
        return tuple(dict.fromkeys(found))

    @property
    def interrupted(self) -> tuple[str, ...]:
        """Labels of stages that more than one process worked on."""
        return tuple(label for label, stage in self.stages.items() if len(stage.starts) > 1)

    def points(self, which: Curve = "training") -> list[Point]:
        """A curve."""
        rows = self.clean if which == "clean" else self.curve
        return [Point(*row[:4], math.nan if row[4] is None else row[4]) for row in rows]

    def is_of(self, cell: Cell) -> bool:
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
        return same_order and _agree(self.config, now, cell.written)


def _agree(kept: Any, now: Any, written: Any) -> bool:
    if not (isinstance(kept, dict) and isinstance(now, dict)):
        return kept == now
    then, current = cast("dict[str, Any]", kept), cast("dict[str, Any]", now)
    said = cast("dict[str, Any]", written) if isinstance(written, dict) else {}
    return then.keys() <= current.keys() and all(
        _agree(then[key], value, said.get(key)) if key in then else key not in said
        for key, value in current.items()
    )


def record(suite: str, cell: Cell, run: Path, shared: Sequence[str], last: Pace) -> Kept:
    """What a finished run has to show.

    Args:
        suite: Its name.
        cell: What was run.
        run: The run's directory.
        shared: Labels of the stages that were taken up.
        last: The sitting that ended it.

    Raises:
        DataError: Something in the run's directory is missing or damaged.
    """
    places = {
        label: run / stage_folder(index, label)
        for index, label in enumerate(cell.experiment.stages)
    }
    provenance = _provenance(run / RUN)
    metrics = places.get(cell.stage, run) / "metrics.jsonl"
    lines = read_metrics(metrics) if metrics.is_file() else []
    return Kept(
        suite=suite,
        **cell.key._asdict(),
        digest=cell.digest,
        stage=cell.stage,
        ended=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        jobs=last.jobs,
        threads=last.threads,
        sittings=paces(run),
        versions=provenance["versions"],
        machine=provenance["machine"],
        stages={label: _stage(place, label in shared) for label, place in places.items()},
        curve=_rows(thinned(lines)),
        clean=_rows(looks(lines)),
        config=cell.settings,
    )


def _provenance(path: Path) -> dict[str, dict[str, Any]]:
    """What a run writes down of itself whenever it is begun, or gone on with."""
    hint = "run the suite again, which writes it anew"
    body = read_json(path, hint)
    found = {name: body.get(name) for name in ("versions", "machine")}
    for name, value in found.items():
        if not isinstance(value, dict):
            expected = f"a mapping '{name}'"
            raise DataError("is damaged", where=path, expected=expected, found=value, hint=hint)
    return cast("dict[str, dict[str, Any]]", found)


def _stage(place: Path, shared: bool) -> KeptStage:
    report = Report.read(place)
    if report is None:
        raise DataError("has no report", where=place, hint="run the suite again")
    return KeptStage(
        seconds=round(report.seconds, 3),
        status=report.status,
        gate="" if report.gate is None else f"{report.gate.name}: {report.gate.detail}",
        shared=shared,
        starts=starts(place),
        numbers=report.numbers,
    )


def _rows(points: Sequence[Point]) -> tuple[Row, ...]:
    rounded = [
        (p, round(p.seconds, 3), None if math.isnan(p.returns) else p.returns) for p in points
    ]
    return tuple((p.env_steps, s, p.episodes, p.successes, r) for p, s, r in rounded)


def read_json(path: Path, hint: str = DELETE) -> Mapping[str, Any]:
    """A JSON file of ours.

    Raises:
        DataError: It is none.
    """
    try:
        found: Any = json.loads(path.read_text())
        if not isinstance(found, dict):
            raise ValueError("it holds no mapping")
    except (OSError, ValueError) as error:
        raise DataError("cannot be read", where=path, found=str(error), hint=hint) from error
    return cast("Mapping[str, Any]", found)
