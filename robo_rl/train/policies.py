"""Policies on disk: a checkpoint directory that rebuilds without the experiment that made it."""

from __future__ import annotations

from pathlib import Path

from robo_rl.policy.archive import describe, rebuild
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train import checkpoint


def save_policy(directory: Path, policy: DenoisingPolicy) -> Path:
    """Write a policy; returns its directory.

    Raises:
        CheckpointError: It could not be written.
    """
    checkpoint.save(directory, dict(policy.state_dict()), describe(policy))
    return directory


def load_policy(directory: Path) -> DenoisingPolicy:
    """The policy of ``save_policy``, in evaluation mode.

    Raises:
        CheckpointError: Missing, damaged, or weights that do not fit.
    """
    tensors, meta = checkpoint.load(directory)
    return rebuild(meta, tensors).eval()
