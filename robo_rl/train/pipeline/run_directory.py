"""The directory of a run: which stages it holds, and under which settings they were made."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from robo_rl.config.models import to_yaml
from robo_rl.config.provenance import machine_info, versions
from robo_rl.core.atomic_files import discard, make_directory, remove_temporary, write_file
from robo_rl.core.errors import CheckpointError, ConfigError
from robo_rl.core.file_lock import lock_file
from robo_rl.data.images.frame_cache import FOLDER as FRAMES
from robo_rl.train.pipeline.config_diff import stage_changes
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.processes.sessions import FILE as STARTS
from robo_rl.train.pipeline.reevaluation import (
    FILE,
    MARK,
    only_eval_changed,
    read_digest,
    read_mark,
    write_mark,
)
from robo_rl.train.pipeline.stage import REPORT
from robo_rl.train.pipeline.stage_digest import stage_digest, stage_world
from robo_rl.train.pipeline.world_digest import WORLD, describe_changes, read_world

RUN, SECONDS, LOCK = "run.json", "seconds", ".lock"


@contextmanager
def lock_run(directory: Path) -> Generator[None]:
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
        and read_digest(place) == stage_digest(experiment, index)
        for index, place in enumerate(places)
    )


def record_run(directory: Path, experiment: Experiment, labels: Sequence[str]) -> None:
    """Record a run's config, versions and machine.

    Raises:
        ConfigError: The directory holds stages of another config, device or world.
    """
    _check_stages(directory, experiment)
    remove_temporary(directory)
    config = experiment.model_dump(mode="json")
    write_file(directory / "config.yaml", to_yaml(config).encode())
    if not ((directory / RUN).exists() and is_finished(directory, experiment, labels)):
        provenance = {"name": experiment.name, "seed": experiment.seed}
        body = provenance | {"versions": versions(), "machine": machine_info()}
        write_file(directory / RUN, json.dumps(body, indent=1).encode())


def _check_stages(directory: Path, experiment: Experiment) -> None:
    """Admit the stages of a directory, and record the settings of those without a record."""
    index = {stage_folder(i, label): i for i, label in enumerate(experiment.stages)}
    places = [mark.parent for mark in sorted(directory.glob(f"[0-9][0-9]-*/{MARK}"))]
    for place in places:
        known = place.name in index
        digest = stage_digest(experiment, index[place.name]) if known else None
        if read_digest(place) != digest:
            _admit(place, experiment, list(index))
    for place in places:
        world = stage_world(experiment, index[place.name]) if place.name in index else {}
        if changed := describe_changes(read_world(place), world):
            _forget_failed(place, other_world_error(place, changed))
    for place in places:
        if not (place / FILE).exists() and (made := read_mark(place)) is not None:
            write_mark(place, made)  # before the config changes


def _admit(place: Path, experiment: Experiment, folders: list[str]) -> None:
    """Accept a stage of another config if only its evaluation differs.

    Raises:
        ConfigError: More than the evaluation differs.
    """
    known = place.name in folders
    if not (known and only_eval_changed(place, experiment, folders.index(place.name))):
        _forget_failed(place, other_config_error(place, experiment))


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


def other_config_error(place: Path, experiment: Experiment) -> ConfigError:
    """Return the refusal of a stage that other settings, or another device, made."""
    if (device := _other_device(place, experiment)) is not None:
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


def _other_device(place: Path, experiment: Experiment) -> str | None:
    """Return the type of device on which the same settings made a stage, or None."""
    folders = [stage_folder(index, label) for index, label in enumerate(experiment.stages)]
    if place.name not in folders:
        return None
    made, index = read_digest(place), folders.index(place.name)
    others = {"cpu", "cuda"} - {experiment.place.type}
    return next((x for x in others if stage_digest(experiment, index, x) == made), None)


def other_world_error(place: Path, changed: str) -> ConfigError:
    """Return the refusal of a stage whose task, assets or physics have changed."""
    return ConfigError(
        "holds a stage of another world",
        where=place,
        found=changed,
        hint="put back what changed, give the run another name=…, or remove the directory",
    )
