"""Collects the results of a finished run from its directory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from robo_rl.bench.results.cell_record import CellRecord, CurveRow, StageResult, read_json
from robo_rl.bench.results.run_conditions import RunConditions, conditions_of
from robo_rl.bench.suite.curves import Point, eval_curve, training_curve
from robo_rl.bench.suite.plan import Cell
from robo_rl.core.errors import DataError, first_problem
from robo_rl.train.checkpoint.metrics_log import read_metrics
from robo_rl.train.pipeline.processes.sessions import read_sessions
from robo_rl.train.pipeline.run_directory import RUN, stage_folder
from robo_rl.train.pipeline.stage import Report


def make_cell_record(suite: str, cell: Cell, run: Path, shared: Sequence[str]) -> CellRecord:
    """Return the record of a finished run.

    Args:
        suite: Name of the suite.
        cell: Cell of the run.
        run: Directory of the run.
        shared: Labels of its shared stages.

    Raises:
        DataError: A file of the run is missing or damaged, or a number cannot be kept.
    """
    try:
        return _recorded(suite, cell, run, shared)
    except ValidationError as error:
        found = first_problem(error, "cell")
        raise DataError("has what cannot be kept", where=run, found=found) from error


def _recorded(suite: str, cell: Cell, run: Path, shared: Sequence[str]) -> CellRecord:
    places = {
        label: run / stage_folder(index, label)
        for index, label in enumerate(cell.experiment.stages)
    }
    provenance = _provenance(run / RUN)
    sittings = _sittings(run)
    metrics = places.get(cell.stage, run) / "metrics.jsonl"
    lines = read_metrics(metrics) if metrics.is_file() else []
    return CellRecord(
        suite=suite,
        **cell.key._asdict(),
        digest=cell.digest,
        stage=cell.stage,
        ended=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        jobs=sittings[-1].jobs,
        threads=sittings[-1].threads,
        sittings=sittings,
        versions=provenance["versions"],
        world=_world(places),
        machine=provenance["machine"],
        stages={label: _stage(place, label in shared) for label, place in places.items()},
        curve=_rows(training_curve(lines)),
        clean=_rows(eval_curve(lines)),
        config=cell.settings,
        pilot=cell.pilot,
    )


def _provenance(path: Path) -> dict[str, dict[str, Any]]:
    """Return versions and machine, which a run records at each start."""
    hint = "run the suite again, which writes it anew"
    body = read_json(path, hint)
    found = {name: body.get(name) for name in ("versions", "machine")}
    for name, value in found.items():
        if not isinstance(value, dict):
            expected = f"a mapping '{name}'"
            raise DataError("is damaged", where=path, expected=expected, found=value, hint=hint)
    return cast("dict[str, dict[str, Any]]", found)


def _sittings(run: Path) -> tuple[RunConditions, ...]:
    if found := conditions_of(run):
        return found
    raise DataError("does not say how it was run", where=run, hint="run the suite again")


def _world(places: Mapping[str, Path]) -> dict[str, str]:
    """Return the world of the last stage, which holds for all stages."""
    report = Report.read(list(places.values())[-1])
    return {} if report is None else report.world


def _stage(place: Path, shared: bool) -> StageResult:
    report = Report.read(place)
    if report is None:
        raise DataError("has no report", where=place, hint="run the suite again")
    return StageResult(
        seconds=round(report.seconds, 3),
        status=report.status,
        gate="" if report.gate is None else f"{report.gate.name}: {report.gate.detail}",
        shared=shared,
        starts=read_sessions(place),
        numbers=report.numbers,
    )


def _rows(points: Sequence[Point]) -> tuple[CurveRow, ...]:
    known = [None if math.isnan(point.returns) else point.returns for point in points]
    return tuple(
        CurveRow(p.env_steps, round(p.seconds, 3), p.episodes, p.successes, returns)
        for p, returns in zip(points, known, strict=True)
    )
