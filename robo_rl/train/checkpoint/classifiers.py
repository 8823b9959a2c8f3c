"""Saves and loads success classifiers; the checkpoint describes the classifier's inputs."""

from __future__ import annotations

from pathlib import Path

from robo_rl.train.checkpoint import files as checkpoint
from robo_rl.world.success import SuccessClassifier, classifier_from_meta, classifier_meta


def save_success(directory: Path, model: SuccessClassifier) -> Path:
    """Write a classifier and return its directory.

    Raises:
        CheckpointError: It cannot be written.
    """
    return checkpoint.save(directory, model.state_dict(), classifier_meta(model))


def load_success(directory: Path) -> SuccessClassifier:
    """Load a classifier of ``save_success`` in evaluation mode.

    Raises:
        CheckpointError: The checkpoint is missing, damaged, or not a classifier.
    """
    tensors, meta = checkpoint.load(directory)
    return classifier_from_meta(meta, tensors)
