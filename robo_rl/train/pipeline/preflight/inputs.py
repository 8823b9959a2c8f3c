"""Checks the files that stages read beside those of their run, before it begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from robo_rl.config.component import Component
from robo_rl.core.errors import RoboRlError
from robo_rl.train.pipeline.stage_traits import StageTraits


def check_inputs(stages: Mapping[str, Component[StageTraits]], experiment: Any) -> None:
    """Check the files that stages read beside those of their run.

    Args:
        stages: Stages that have not run.
        experiment: Their experiment.

    Raises:
        ConfigError, CheckpointError, DataError: A file of the named stage is missing, is damaged,
            or does not fit the experiment; see ``check_inputs`` of the stage.
    """
    for label, stage in stages.items():
        try:
            stage.cls.check_inputs(stage.cfg, experiment)
        except RoboRlError as error:
            error.place_within(f"stages.{label}")
            raise
