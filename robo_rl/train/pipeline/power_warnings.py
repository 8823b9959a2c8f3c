"""Gates that can hardly pass with the episodes that they get, named before anything runs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator

from robo_rl.core.errors import Notice
from robo_rl.train.pipeline.experiment import Experiment


def find_power_warnings(experiment: Experiment, labels: Iterable[str]) -> Iterator[str]:
    """A sentence of each such gate among stages; those that are waived are left out.

    Args:
        experiment: Says how many episodes there are.
        labels: Of its stages.
    """
    for label in labels:
        stage = experiment.stages[label]
        if label in experiment.waive:
            continue
        if (doubt := stage.cls.low_power_warning(stage.cfg, experiment.eval)) is not None:
            yield f"stages.{label}: {doubt}"


def emit_power_warnings(experiment: Experiment, labels: Iterable[str]) -> None:
    """Say them, each as a ``Notice``."""
    for doubt in find_power_warnings(experiment, labels):
        warnings.warn(doubt, Notice, stacklevel=2)
