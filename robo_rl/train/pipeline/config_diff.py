"""Differences between an experiment and the config of an existing run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from robo_rl.config.compose import compose
from robo_rl.config.differences import (
    UNSET,
    Difference,
    differences,
    paths_without_effect,
)
from robo_rl.config.interpolation import KeyPath
from robo_rl.core.errors import ConfigError
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.stage_digest import fields_read

_IDLE = frozenset({"name", "launch"})
"""Keys that never change a stage."""
_WAIVERS = "waive"
"""Key that changes only the stages that heed it."""
_NAMED = 4
"""Maximum number of settings in the text."""


def changed_settings(
    config: Path,
    settings: Mapping[str, Any],
    *,
    heeded: Collection[str] = (),
    counts: Callable[[KeyPath], bool] = lambda path: True,
) -> str | None:
    """Return the changed settings of a recorded run: 'key: then → now; …'.

    Args:
        config: The run's ``config.yaml``.
        settings: Current settings, as plain values.
        heeded: Stages for which the presence of a waiver matters; these come first.
        counts: Whether a key, such as ``("stages", "bc", "steps")``, matters.

    Returns:
        None without differences, or if the old settings cannot be read.
    """
    try:
        then = compose(str(config)).values
    except ConfigError:
        return None
    found = [each for each in differences(then, dict(settings)) if counts(each.path)]
    waived = [each for each in found if _is_waiver(each) and each.path[-1] in heeded]
    found = waived + [each for each in found if each.path[0] not in {*_IDLE, _WAIVERS}]
    said = [f"{each.key}: {each.one} → {each.other}" for each in found[:_NAMED]]
    more = [f"and {len(found) - _NAMED} more"] if len(found) > _NAMED else []
    return "; ".join(said + more) or None


def stage_changes(config: Path, experiment: Experiment, index: int) -> str | None:
    """Return the changed settings on which a stage of a recorded run depends.

    Settings without effect do not count. Those of ``eval`` count if no other has changed, because
    they alone ask for a new evaluation.

    Args:
        config: The run's ``config.yaml``.
        experiment: The current experiment.
        index: Position of the stage; that of the last one for a stage of none.
    """
    labels = list(experiment.stages)
    upto = labels[: index + 1]
    fields = fields_read(experiment, index) | {"device", "waive"}
    settings, idle = experiment.model_dump(mode="json"), {*paths_without_effect(experiment)}
    before = set(upto) | set(_labels(config)[: index + 1])

    def counts(path: KeyPath) -> bool:
        if path[0] == "stages":
            return path not in idle and (len(path) == 1 or path[1] in before)
        return path not in idle and path[0] in fields

    heeded = [label for label in upto if not experiment.stages[label].cls.stops]
    trained = changed_settings(
        config, settings, heeded=heeded, counts=lambda path: path[0] != "eval" and counts(path)
    )
    return trained or changed_settings(config, settings, heeded=heeded, counts=counts)


def _is_waiver(difference: Difference) -> bool:
    """Return whether only one of both configs waives the stage."""
    return difference.path[0] == _WAIVERS and UNSET in (difference.one, difference.other)


def _labels(config: Path) -> list[str | int]:
    """Return the labels of the stages of a recorded run; empty if they cannot be read."""
    try:
        stages = compose(str(config)).values.get("stages")
    except ConfigError:
        return []
    return list(stages) if isinstance(stages, dict) else []
