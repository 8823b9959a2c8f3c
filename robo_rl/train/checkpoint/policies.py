"""Saves and loads policies; a checkpoint rebuilds without the experiment's config."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch
from torch import nn

from robo_rl.core.errors import ConfigError
from robo_rl.policy.archive import policy_from_meta, policy_meta
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint import files as checkpoint


def save_policy(directory: Path, policy: DenoisingPolicy) -> Path:
    """Write a policy and return its directory.

    Raises:
        CheckpointError: It cannot be written.
    """
    checkpoint.save(directory, dict(policy.state_dict()), policy_meta(policy))
    return directory


def load_policy(directory: Path, device: torch.device | str = "cpu") -> DenoisingPolicy:
    """The policy of ``save_policy`` on a device, in evaluation mode.

    Raises:
        CheckpointError: The checkpoint is missing or damaged, or the weights do not fit.
    """
    tensors, meta = checkpoint.load(directory)
    return policy_from_meta(meta, tensors).eval().to(device)


def weights_digest(module: nn.Module) -> str:
    """Return a hash of all tensors of a module by name, as sixteen hexadecimal digits."""
    found = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        found.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        found.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()[:16]


def check_distillable(cfg: DenoisingPolicy.Config, why: str) -> None:
    """Check that evaluation is a function of the observation and one draw of noise.

    Raises:
        ConfigError: The policy draws noise along its chain.
    """
    if cfg.eval_is_deterministic:
        return
    raise ConfigError(
        f"{why} needs a policy whose evaluation draws noise at its start alone",
        where="policy.eval_eta",
        expected=0,
        hint="a policy fine-tuned under ddpm may do less well so; 'eval' tells",
    )


def check_trains_all_steps(policy: DenoisingPolicy) -> None:
    """Check that all denoising steps of the policy run on the trainable network.

    Raises:
        ConfigError: Its first steps run on the reference network, frozen when RL began.
    """
    if policy.reference_net is not None and policy.cfg.finetune_steps:
        raise ConfigError(
            "a policy whose first denoising steps were kept as they were cloned cannot be improved",
            where="policy.finetune_steps",
            expected="0, or a policy that no stage 'online' has trained",
            found=policy.cfg.finetune_steps,
            hint="distil it first, or fine-tune all of its steps",
        )
