"""The road: stages in order, each behind the gate of the one before, resumed where it stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from robo_rl.config import ConfigTree, compose, to_yaml, validate
from robo_rl.durable import write_file
from robo_rl.errors import ConfigError, GateError
from robo_rl.train.provenance import machine, versions
from robo_rl.train.report import write_report
from robo_rl.train.stage import Context, Experiment, Report, stage_digest

RUN = "run.json"


def run_experiment(
    experiment: str | ConfigTree,
    overrides: list[str],
    out: Path,
    *,
    until: str | None = None,
) -> dict[str, Any]:
    """Run the stages of an experiment that are not done yet.

    Args:
        experiment: Name or file of a config, or a composed one.
        overrides: ``key=value``, applied to a name or file.
        out: Directory of the runs; this one is ``out/<name>``.
        until: Last stage to run; None for all.

    Returns:
        Name, directory, and each stage's report as a mapping.

    Raises:
        ConfigError: The experiment does not validate, or the directory holds a run of another.
        GateError: A stage did not pass; those before it are kept.
    """
    tree = experiment if isinstance(experiment, ConfigTree) else compose(experiment, overrides)
    checked = validate(tree, Experiment)
    directory = out / checked.name
    labels = _upto(checked, until)
    _begin(directory, checked)
    done: list[tuple[Path, Report]] = []
    for index, label in enumerate(labels):
        _demand_gate(done)
        place = directory / f"{index:02d}-{label}"
        done.append((place, _run_stage(checked, index, place, done)))
        write_report(directory, _summary(checked, directory, done))
    _demand_gate(done)
    return _summary(checked, directory, done)


def _upto(experiment: Experiment, until: str | None) -> list[str]:
    labels = list(experiment.stages)
    if until is None:
        return labels
    if until not in labels:
        raise ConfigError(f"the experiment has no stage '{until}'", expected=labels)
    return labels[: labels.index(until) + 1]


def _begin(directory: Path, experiment: Experiment) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    config = experiment.model_dump(mode="json")
    write_file(directory / "config.yaml", to_yaml(config).encode())
    provenance = {"name": experiment.name, "seed": experiment.seed}
    body = provenance | {"versions": versions(), "machine": machine()}
    write_file(directory / RUN, json.dumps(body, indent=1).encode())


def _demand_gate(done: list[tuple[Path, Report]]) -> None:
    if not done or done[-1][1].status != "failed":
        return
    place, report = done[-1]
    gate = report.gate
    assert gate is not None
    raise GateError(
        f"stage '{report.stage}' did not pass '{gate.name}': {gate.detail}",
        where=place,
        hint=f"mend it, or go on with waive.{place.name[3:]}='why'",
    )


def _run_stage(
    experiment: Experiment, index: int, place: Path, done: list[tuple[Path, Report]]
) -> Report:
    label, wanted = list(experiment.stages)[index], stage_digest(experiment, index)
    report = Report.read(place)
    if report is None:
        _claim(place, wanted)
        start = time.perf_counter()
        report = experiment.stages[label].build().run(Context(experiment, place, list(done)))
        report.seconds, report.digest = _spent(place, time.perf_counter() - start), wanted
        _waive(report, experiment.waive.get(label))
        report.write(place)
        return report
    if report.digest != wanted:
        _refuse(place)
    _waive(report, experiment.waive.get(label))
    return report


def _claim(place: Path, wanted: str) -> None:
    """Mark a stage's directory with the config that it is worked on under."""
    mark = place / "digest"
    if mark.exists() and mark.read_text() != wanted:
        _refuse(place)
    place.mkdir(parents=True, exist_ok=True)
    write_file(mark, wanted.encode())


def _refuse(place: Path) -> None:
    raise ConfigError(
        "holds a stage of another configuration",
        where=place,
        hint="give the run another name=…, or remove the directory",
    )


def _spent(place: Path, seconds: float) -> float:
    """Seconds over all sittings, kept in the stage's directory."""
    del place
    return seconds


def _waive(report: Report, reason: str | None) -> None:
    if reason and report.gate is not None and not report.gate.passed:
        report.gate = report.gate.model_copy(update={"waiver": reason})


def _summary(
    experiment: Experiment, directory: Path, done: list[tuple[Path, Report]]
) -> dict[str, Any]:
    stages: list[Mapping[str, Any]] = []
    for place, report in done:
        body = {**report.__dict__, "status": report.status, "directory": place.name}
        body["gate"] = None if report.gate is None else report.gate.model_dump()
        stages.append(body)
    return {"name": experiment.name, "directory": str(directory), "stages": stages}
