"""Runs stages in order, each after the gate of the one before; resumes an interrupted run."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from robo_rl.config.models import ConfigTree, compose, to_yaml, validate
from robo_rl.config.provenance import machine_info, versions
from robo_rl.core.atomic_files import discard, make_directory, remove_temporary, write_file
from robo_rl.core.device import find_device
from robo_rl.core.errors import CheckpointError, ConfigError, GateError
from robo_rl.core.file_lock import lock_file
from robo_rl.core.suggestions import did_you_mean
from robo_rl.data.images.frame_cache import FOLDER as FRAMES
from robo_rl.distributed.process_group import joined_processes, single_process
from robo_rl.report import write_report
from robo_rl.train.checkpoint.file_errors import explain_file_errors
from robo_rl.train.pipeline.config_diff import stage_changes
from robo_rl.train.pipeline.experiment import Experiment, run_until, stages_until
from robo_rl.train.pipeline.preflight import check_inputs
from robo_rl.train.pipeline.processes.multi_process import assist, lead, skip
from robo_rl.train.pipeline.processes.sessions import FILE as STARTS
from robo_rl.train.pipeline.processes.sessions import record_session
from robo_rl.train.pipeline.reevaluation import (
    FILE,
    MARK,
    StageMark,
    only_eval_changed,
    read_mark,
    reevaluate_stage,
    write_mark,
)
from robo_rl.train.pipeline.run_warnings import emit_run_warnings
from robo_rl.train.pipeline.sight_preflight import check_sight
from robo_rl.train.pipeline.stage import (
    REPORT,
    Context,
    Report,
    Stage,
    stage_digest,
    stage_world,
)
from robo_rl.train.pipeline.stage_traits import check_artifacts
from robo_rl.train.pipeline.stopwatch import Stopwatch
from robo_rl.train.pipeline.world_digest import WORLD, describe_changes, read_world

RUN, SECONDS, LOCK = "run.json", "seconds", ".lock"

Done = list[tuple[Path, Report]]


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
        DataError: Pretrained statistics are those of other arrays.
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
    with explain_file_errors(directory), _alone(directory):
        _begin(directory, experiment, labels)
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


@contextmanager
def _alone(directory: Path) -> Generator[None]:
    """Lock a run, so that no other process writes to it."""
    make_directory(directory)
    try:
        lock = lock_file(directory / LOCK)
    except BlockingIOError:
        raise CheckpointError(
            "another process is at this run",
            where=directory,
            hint="wait for it, or give this run another name=…",
        ) from None
    with lock:
        yield


def stage_folder(index: int, label: str) -> str:
    """Return the folder name of a stage within its run."""
    return f"{index:02d}-{label}"


def is_finished(directory: Path, experiment: Experiment, labels: Sequence[str] = ()) -> bool:
    """Return whether the first stages of a run, or all, were made under these settings.

    Args:
        directory: Directory of the run.
        experiment: Experiment of the run.
        labels: The first stages; empty for all.
    """
    places = [
        directory / stage_folder(i, label) for i, label in enumerate(labels or experiment.stages)
    ]
    return all(
        (place / REPORT).exists()
        and (place / MARK).exists()
        and (place / MARK).read_text() == stage_digest(experiment, index)
        for index, place in enumerate(places)
    )


def _begin(directory: Path, experiment: Experiment, labels: Sequence[str]) -> None:
    """Record the run, unless the directory holds stages of another experiment."""
    digests = {
        stage_folder(index, label): stage_digest(experiment, index)
        for index, label in enumerate(experiment.stages)
    }
    worlds = {
        stage_folder(index, label): stage_world(experiment, index)
        for index, label in enumerate(experiment.stages)
    }
    places = [mark.parent for mark in sorted(directory.glob(f"[0-9][0-9]-*/{MARK}"))]
    for place in places:
        if (place / MARK).read_text() != digests.get(place.name):
            _admit(place, experiment, list(digests))
    for place in places:
        if changed := describe_changes(read_world(place), worlds.get(place.name, {})):
            _forget_failed(place, _elsewhere(place, changed))
    for place in places:
        if not (place / FILE).exists() and (made := read_mark(place)) is not None:
            write_mark(place, made)  # before the config changes
    remove_temporary(directory)
    config = experiment.model_dump(mode="json")
    write_file(directory / "config.yaml", to_yaml(config).encode())
    if not ((directory / RUN).exists() and is_finished(directory, experiment, labels)):
        provenance = {"name": experiment.name, "seed": experiment.seed}
        body = provenance | {"versions": versions(), "machine": machine_info()}
        write_file(directory / RUN, json.dumps(body, indent=1).encode())


def _admit(place: Path, experiment: Experiment, folders: list[str]) -> None:
    """Accept a stage of another config if only its evaluation differs.

    Raises:
        ConfigError: More than the evaluation differs.
    """
    known = place.name in folders
    if not (known and only_eval_changed(place, experiment, folders.index(place.name))):
        _forget_failed(place, _other(place, experiment))


def _forget_failed(place: Path, refusal: ConfigError) -> None:
    """Remove a refused stage that has made nothing.

    Raises:
        ConfigError: The stage has made something.
    """
    remove_temporary(place)
    found = {path.name for path in place.iterdir()}
    if not found <= {MARK, FILE, SECONDS, STARTS, WORLD, FRAMES}:
        raise refusal
    if FRAMES in found:
        discard(place / FRAMES)
        found.remove(FRAMES)
    for name in sorted(found, key=lambda name: name == MARK):  # the mark last: it names the stage
        (place / name).unlink()
    place.rmdir()


def _demand_gate(done: Done) -> None:
    if not done or done[-1][1].status in ("passed", "waived"):
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
    place.mkdir(exist_ok=True)
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
        raise _elsewhere(place, changed)
    if again := report.digest != made.digest:
        if not only_eval_changed(place, experiment, index):
            raise _other(place, experiment)
        world = report.world
        with single_process():
            report = reevaluate_stage(stage, context, report)
        report.digest, report.stage, report.world = made.digest, label, world
    if _waive(report, experiment.waive.get(label)) or again:
        report.write(place)
    if (place / MARK).read_text() != made.digest:
        write_mark(place, made)
    return report


def _other(place: Path, experiment: Experiment) -> ConfigError:
    if (device := _made_elsewhere(place, experiment)) is not None:
        return ConfigError(
            "holds a stage that was made on another device",
            where=place,
            expected=experiment.place.type,
            found=device,
            hint=f"go on with device={device}, or give the run another name=…",
        )
    folders = [stage_folder(i, label) for i, label in enumerate(experiment.stages)]
    index = folders.index(place.name) if place.name in folders else len(folders) - 1
    return ConfigError(
        "holds a stage of another configuration",
        where=place,
        found=stage_changes(place.parent / "config.yaml", experiment, index),
        hint="give the run another name=…, or remove the directory",
    )


def _made_elsewhere(place: Path, experiment: Experiment) -> str | None:
    """The type of device on which the same settings made a stage; None where they did not."""
    folders = [stage_folder(index, label) for index, label in enumerate(experiment.stages)]
    if place.name not in folders:
        return None
    made, index = (place / MARK).read_text(), folders.index(place.name)
    others = {"cpu", "cuda"} - {experiment.place.type}
    return next((x for x in others if stage_digest(experiment, index, x) == made), None)


def _elsewhere(place: Path, changed: str) -> ConfigError:
    return ConfigError(
        "holds a stage of another world",
        where=place,
        found=changed,
        hint="put back what changed, give the run another name=…, or remove the directory",
    )


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
