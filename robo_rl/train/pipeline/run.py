"""Runs stages in order, each after the gate of the one before; resumes an interrupted run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from robo_rl.config.models import ConfigTree, compose, validate
from robo_rl.core.atomic_files import make_directory, remove_temporary, write_file
from robo_rl.core.device import find_device
from robo_rl.core.errors import ConfigError, DataError, GateError
from robo_rl.core.suggestions import did_you_mean
from robo_rl.distributed.process_group import joined_processes, single_process
from robo_rl.report import write_report
from robo_rl.train.checkpoint.file_errors import explain_file_errors
from robo_rl.train.pipeline.experiment import HAS_RUN, Experiment, run_until, stages_until
from robo_rl.train.pipeline.preflight.inputs import check_inputs
from robo_rl.train.pipeline.preflight.run_warnings import emit_run_warnings
from robo_rl.train.pipeline.preflight.sight import check_sight
from robo_rl.train.pipeline.processes.multi_process import assist, lead, skip
from robo_rl.train.pipeline.processes.sessions import record_session
from robo_rl.train.pipeline.reevaluation import (
    MARK,
    StageMark,
    only_eval_changed,
    read_digest,
    reevaluate_stage,
    write_mark,
)
from robo_rl.train.pipeline.run_directory import (
    SECONDS,
    lock_run,
    other_config_error,
    other_world_error,
    record_run,
    stage_folder,
)
from robo_rl.train.pipeline.stage import Context, Report, Stage
from robo_rl.train.pipeline.stage_digest import stage_digest, stage_world
from robo_rl.train.pipeline.stage_traits import check_artifacts
from robo_rl.train.pipeline.stopwatch import Stopwatch
from robo_rl.train.pipeline.world_digest import WORLD, describe_changes, read_world

Done = list[tuple[Path, Report]]
_PASSED = ("passed", "waived")


def run_experiment(
    experiment: str | ConfigTree,
    overrides: list[str],
    out: Path,
    *,
    until: str | None = None,
    on_stage_end: Callable[[dict[str, Any]], None] = lambda summary: None,
) -> dict[str, Any]:
    """Run the unfinished stages of an experiment.

    Args:
        experiment: Name or file of a config, or a composed one.
        overrides: ``key=value``, applied to a name or file.
        out: Directory of the runs; this one is ``out/<name>``.
        until: Last stage to run; None for all.
        on_stage_end: Called after each stage with what is returned at the end.

    Returns:
        Name, directory, minutes over all sessions, and each stage's report as a mapping; empty
        in processes that assist the first (``multi_process``).

    Raises:
        ConfigError: The experiment does not validate, or the directory holds another run.
        SpecError: The policy does not read what the env observes.
        DataError: A file that a stage reads is missing, is damaged or does not fit; this error may
            also be a ConfigError or a CheckpointError.
        DeviceError: The device of the experiment does not exist.
        GateError: A stage did not pass; those before it are kept.
        CheckpointError: A file cannot be written or is damaged, or another process uses the run.
        ParallelError: A process of the same launch is gone.
    """
    tree = experiment if isinstance(experiment, ConfigTree) else compose(experiment, overrides)
    checked = validate(tree, Experiment, run_until(until))
    find_device(checked.device)
    directory = out / checked.name
    labels = _upto(checked, until)
    with joined_processes() as ranks:
        if ranks.rank:
            assist(checked, [directory / stage_folder(i, name) for i, name in enumerate(labels)])
            return {}
        return _lead(checked, directory, labels, on_stage_end)


def failed_run(
    experiment: str | ConfigTree, overrides: list[str], out: Path
) -> dict[str, Any] | None:
    """Return what ``run_experiment`` returns of a run that ended at a gate; None of another.

    Stages of other settings or another world are those of another run.

    Args:
        experiment: As for ``run_experiment``.
        overrides: As for ``run_experiment``.
        out: As for ``run_experiment``.
    """
    tree = experiment if isinstance(experiment, ConfigTree) else compose(experiment, overrides)
    checked = validate(tree, Experiment, HAS_RUN)
    directory, done = out / checked.name, Done()
    for index, label in enumerate(checked.stages):
        place = directory / stage_folder(index, label)
        if (report := _own_report(place, checked, index)) is None:
            break
        done.append((place, report))
    failed = done and done[-1][1].status not in _PASSED
    return _summary(checked, directory, done) if failed else None


def _own_report(place: Path, experiment: Experiment, index: int) -> Report | None:
    """Return the report of a stage that these settings made in this world, or None."""
    try:
        report = Report.read(place)
    except DataError:
        return None
    if report is None or report.digest != stage_digest(experiment, index):
        return None
    changed = describe_changes(report.world, stage_world(experiment, index))
    return None if changed else report


def _lead(
    experiment: Experiment,
    directory: Path,
    labels: list[str],
    on_stage_end: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    done: Done = []
    places = {label: directory / stage_folder(i, label) for i, label in enumerate(labels)}
    with explain_file_errors(directory):
        ahead = [label for label in labels if Report.read(places[label]) is None]
        for stage in (experiment.stages[label] for label in ahead):
            stage.cls.check_packages(stage.cfg)
        check_inputs({label: experiment.stages[label] for label in ahead}, experiment)
        emit_run_warnings(experiment, ahead)
        check_sight(experiment, {label: places[label] for label in ahead})
    with explain_file_errors(directory), lock_run(directory):
        record_run(directory, experiment, labels)
        for index, label in enumerate(labels):
            _demand_gate(done)
            place = places[label]
            done.append((place, _run_stage(experiment, index, place, done)))
            summary = _summary(experiment, directory, done)
            on_stage_end(summary)
            write_report(directory, summary)
    _demand_gate(done)
    return _summary(experiment, directory, done)


def _upto(experiment: Experiment, until: str | None) -> list[str]:
    labels = list(experiment.stages)
    if until is not None and until not in labels:
        problem, hint = f"the experiment has no stage '{until}'", did_you_mean(until, labels)
        raise ConfigError(problem, where="--until", expected=", ".join(labels), hint=hint)
    return list(stages_until(experiment.stages, until))


def _demand_gate(done: Done) -> None:
    if not done or done[-1][1].status in _PASSED:
        return
    place, report = done[-1]
    gate = report.gate
    assert gate is not None
    unknown = gate.answer == "cannot tell"
    mend = "mend it"
    if unknown and gate.setting and gate.episodes_needed:
        mend = f"{gate.setting}={gate.episodes_needed} evaluates again and trains nothing"
    detail = gate.detail.removeprefix(f"{gate.answer}: ")
    raise GateError(
        f"stage '{report.stage}' {'cannot tell' if unknown else 'did not pass'} '{gate.name}':"
        f" {detail}",
        where=place,
        hint=f"{mend}, or go on with waive.{place.name[3:]}='why'",
    )


def _run_stage(experiment: Experiment, index: int, place: Path, done: Done) -> Report:
    stage = cast("Stage", list(experiment.stages.values())[index].build())
    report, context = (
        Report.read(place),
        Context(experiment, place, list(done), caches_evaluations=True),
    )
    if report is None:
        return _begun(experiment, index, stage, context)
    skip(stage)
    return _kept(experiment, index, stage, report, context)


def _begun(experiment: Experiment, index: int, stage: Stage, context: Context) -> Report:
    """Run an unfinished stage from its last checkpoint."""
    label, place = list(experiment.stages)[index], context.directory
    made = StageMark(stage_digest(experiment, index), experiment.eval)
    make_directory(place)
    remove_temporary(place)
    if not (place / MARK).exists():  # a resumed stage keeps the world of its beginning
        write_file(place / WORLD, json.dumps(stage_world(experiment, index), indent=1).encode())
    write_mark(place, made)
    record_session(place)
    with Stopwatch(place / SECONDS) as watch:
        with lead(stage):
            report = stage.run(context)
        report.seconds, report.digest = watch.seconds, made.digest
        report.stage, report.world = label, read_world(place)
    check_artifacts(type(stage), report.artifacts, label)
    _waive(report, experiment.waive.get(label))
    report.write(place)
    return report


def _kept(
    experiment: Experiment, index: int, stage: Stage, report: Report, context: Context
) -> Report:
    """Return the report of a finished stage, reevaluated if only ``eval`` has changed."""
    label, place = list(experiment.stages)[index], context.directory
    made = StageMark(stage_digest(experiment, index), experiment.eval)
    if changed := describe_changes(report.world, stage_world(experiment, index)):
        raise other_world_error(place, changed)
    if again := report.digest != made.digest:
        if not only_eval_changed(place, experiment, index):
            raise other_config_error(place, experiment)
        world = report.world
        with single_process():
            report = reevaluate_stage(stage, context, report)
        report.digest, report.stage, report.world = made.digest, label, world
    if _waive(report, experiment.waive.get(label)) or again:
        report.write(place)
    if read_digest(place) != made.digest:
        write_mark(place, made)
    return report


def _waive(report: Report, reason: str | None) -> bool:
    """Record the reason of a waiver; return whether it is new."""
    gate = report.gate
    if gate is None or gate.passed or gate.waiver == reason:
        return False
    report.gate = gate.model_copy(update={"waiver": reason})
    return True


def _summary(experiment: Experiment, directory: Path, done: Done) -> dict[str, Any]:
    return {
        "name": experiment.name,
        "directory": str(directory),
        "minutes": sum(report.seconds for _, report in done) / 60,
        "stages": [{**report.body(), "directory": place.name} for place, report in done],
    }
