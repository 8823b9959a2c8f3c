"""Classifiers of success on disk: a checkpoint directory that says by itself what it can judge."""

from __future__ import annotations

from pathlib import Path

from robo_rl.train.checkpoint import files as checkpoint
from robo_rl.world.success import SuccessClassifier, classifier_from_meta, classifier_meta


def save_success(directory: Path, model: SuccessClassifier) -> Path:
    """Write a classifier; returns its directory.

    Raises:
        CheckpointError: It could not be written.
    """
    return checkpoint.save(directory, model.state_dict(), classifier_meta(model))


def load_success(directory: Path) -> SuccessClassifier:
    """The classifier of ``save_success``, in evaluation mode.

    Raises:
        CheckpointError: Missing, damaged, or something else.
    """
    tensors, meta = checkpoint.load(directory)
    return classifier_from_meta(meta, tensors)
