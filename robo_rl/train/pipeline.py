"""The road: stages in order, each behind the gate of the one before, resumed where it stopped."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from robo_rl.config import ConfigTree, compose, to_yaml, validate
from robo_rl.durable import make_directory, remove_temporary, write_file
from robo_rl.errors import CheckpointError, ConfigError, GateError
from robo_rl.file_lock import lock_file
from robo_rl.ranks import joined
from robo_rl.train.differing import differing
from robo_rl.train.experiment import Experiment, run_until, upto
from robo_rl.train.provenance import machine, versions
from robo_rl.train.report import write_report
from robo_rl.train.stage import Context, Report, stage_digest, stage_world
from robo_rl.train.stage_class import demand_said, traits
from robo_rl.train.starts import FILE as STARTS
from robo_rl.train.starts import note_start
from robo_rl.train.stopwatch import Stopwatch
from robo_rl.train.together import assist, led, skip
from robo_rl.train.world_digest import WORLD, differences, read_world

RUN, MARK, SECONDS, LOCK = "run.json", "digest", "seconds", ".lock"

Done = list[tuple[Path, Report]]


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
        Name, directory, minutes over all sittings, and each stage's report as a mapping; nothing
        in processes that assist the first (``train.together``).

    Raises:
        ConfigError: The experiment does not validate, or the directory holds a run of another.
        GateError: A stage did not pass; those before it are kept.
        CheckpointError: Something cannot be written, or what was written is damaged, or another
            process is at the run.
        ParallelError: A process that it was launched with is gone.
    """
    tree = experiment if isinstance(experiment, ConfigTree) else compose(experiment, overrides)
    checked = validate(tree, Experiment, run_until(until))
    directory = out / checked.name
    labels = _upto(checked, until)
    with joined() as ranks:
        if ranks.rank:
            assist(checked, [directory / stage_folder(i, name) for i, name in enumerate(labels)])
            return {}
        return _lead(checked, directory, labels)


def _lead(experiment: Experiment, directory: Path, labels: list[str]) -> dict[str, Any]:
    done: Done = []
    with _writing(directory), _alone(directory):
        _begin(directory, experiment)
        for index, label in enumerate(labels):
            _demand_gate(done)
            place = directory / stage_folder(index, label)
            done.append((place, _run_stage(experiment, index, place, done)))
            write_report(directory, _summary(experiment, directory, done))
    _demand_gate(done)
    return _summary(experiment, directory, done)


def _upto(experiment: Experiment, until: str | None) -> list[str]:
    labels = list(experiment.stages)
    if until is not None and until not in labels:
        raise ConfigError(f"the experiment has no stage '{until}'", expected=labels)
    return list(upto(experiment.stages, until))


@contextmanager
def _writing(directory: Path) -> Generator[None]:
    """What the disk refuses and nobody has explained yet is said in one line."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"could not be written: {error.strerror or error}",
            where=error.filename or directory,
            hint="free space or check the permissions; the same command resumes",
        ) from error


@contextmanager
def _alone(directory: Path) -> Generator[None]:
    """Nobody else is at a run, whose files two would mix up."""
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
    """Name of a stage within its run."""
    return f"{index:02d}-{label}"


def _begin(directory: Path, experiment: Experiment) -> None:
    """Write down what is run, unless the directory holds stages of something else."""
    digests = {
        stage_folder(index, label): stage_digest(experiment, index)
        for index, label in enumerate(experiment.stages)
    }
    worlds = {
        stage_folder(index, label): stage_world(experiment, index)
        for index, label in enumerate(experiment.stages)
    }
    for mark in sorted(directory.glob(f"[0-9][0-9]-*/{MARK}")):
        if mark.read_bytes() != digests.get(mark.parent.name, "").encode():
            _forget_failed(mark.parent, _other(mark.parent, experiment))
        elif changed := differences(read_world(mark.parent), worlds[mark.parent.name]):
            _forget_failed(mark.parent, _elsewhere(mark.parent, changed))
    remove_temporary(directory)
    config = experiment.model_dump(mode="json")
    write_file(directory / "config.yaml", to_yaml(config).encode())
    provenance = {"name": experiment.name, "seed": experiment.seed}
    body = provenance | {"versions": versions(), "machine": machine()}
    write_file(directory / RUN, json.dumps(body, indent=1).encode())


def _forget_failed(place: Path, refusal: ConfigError) -> None:
    """Remove a stage that was refused before it had made anything.

    Raises:
        ConfigError: It has made something.
    """
    found = {path.name for path in place.iterdir()}
    if not found <= {MARK, SECONDS, STARTS, WORLD}:
        raise refusal
    for name in sorted(found, key=lambda name: name == MARK):  # last what says that it is one
        (place / name).unlink()
    place.rmdir()


def _demand_gate(done: Done) -> None:
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


def _run_stage(experiment: Experiment, index: int, place: Path, done: Done) -> Report:
    label, wanted = list(experiment.stages)[index], stage_digest(experiment, index)
    world = stage_world(experiment, index)
    report, stage = Report.read(place), experiment.stages[label].build()
    if report is None:
        place.mkdir(exist_ok=True)
        remove_temporary(place)
        if not (place / MARK).exists():  # else it goes on in the world in which it began
            write_file(place / WORLD, json.dumps(world, indent=1).encode())
        write_file(place / MARK, wanted.encode())
        note_start(place)
        with Stopwatch(place / SECONDS) as watch:
            with led(stage):
                report = stage.run(Context(experiment, place, list(done), keeps=True))
            report.seconds, report.digest = watch.seconds, wanted
            report.stage, report.world = label, read_world(place)
        demand_said(type(stage), report.artifacts, label)
        _waive(report, experiment.waive.get(label))
        report.write(place)
        return report
    skip(stage)
    if report.digest != wanted:
        raise _other(place, experiment)
    if changed := differences(report.world, world):
        raise _elsewhere(place, changed)
    if _waive(report, experiment.waive.get(label)):
        report.write(place)
    return report


def _other(place: Path, experiment: Experiment) -> ConfigError:
    config, stages = place.parent / "config.yaml", experiment.stages.items()
    heeded = [label for label, stage in stages if not traits(stage.cls).stops]
    return ConfigError(
        "holds a stage of another configuration",
        where=place,
        found=differing(config, experiment.model_dump(mode="json"), heeded=heeded),
        hint="give the run another name=…, or remove the directory",
    )


def _elsewhere(place: Path, changed: str) -> ConfigError:
    return ConfigError(
        "holds a stage of another world",
        where=place,
        found=changed,
        hint="put back what changed, give the run another name=…, or remove the directory",
    )


def _waive(report: Report, reason: str | None) -> bool:
    """Keep the reason why a failed gate is passed over; says whether that is news."""
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
