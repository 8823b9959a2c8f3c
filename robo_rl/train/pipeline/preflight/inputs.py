"""Checks the files that stages read beside those of their run, before it begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from robo_rl.config.component import Component
from robo_rl.core.errors import ConfigError
from robo_rl.train.pipeline.stage_traits import StageTraits


def check_inputs(stages: Mapping[str, Component[StageTraits]], experiment: Any) -> None:
    """Check the files that stages read beside those of their run.

    Args:
        stages: Stages that have not run.
        experiment: Their experiment.

    Raises:
        ConfigError: One is missing, or does not fit the experiment.
        CheckpointError: One is damaged.
        DataError: One was made with other settings.
    """
    for label, stage in stages.items():
        try:
            stage.cls.check_inputs(stage.cfg, experiment)
        except ConfigError as error:
            raise ConfigError(f"stages.{label}: {error}") from error
