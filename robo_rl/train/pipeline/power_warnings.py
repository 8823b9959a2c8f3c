"""Warns before a run about gates with too few episodes to pass."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator

from robo_rl.core.errors import Notice
from robo_rl.train.pipeline.experiment import Experiment


def find_power_warnings(experiment: Experiment, labels: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each such gate; waived stages are left out.

    Args:
        experiment: Experiment with the number of episodes.
        labels: Labels of the stages to check.
    """
    for label in labels:
        stage = experiment.stages[label]
        if label in experiment.waive:
            continue
        if (doubt := stage.cls.low_power_warning(stage.cfg, experiment.eval)) is not None:
            yield f"stages.{label}: {doubt}"


def emit_power_warnings(experiment: Experiment, labels: Iterable[str]) -> None:
    """Emit each warning as a ``Notice``."""
    for doubt in find_power_warnings(experiment, labels):
        warnings.warn(doubt, Notice, stacklevel=2)
