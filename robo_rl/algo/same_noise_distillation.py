"""Same-noise distillation of a chain into one step.

Shapes: B rows, H horizon, A act_dim. The student maps the teacher's noise to the teacher's action,
which keeps modes separate instead of averaging them (RL-100, arXiv 2510.14830, "action_same_noise";
FQL's distillation term).
"""

from __future__ import annotations

import torch
from torch import Tensor

from robo_rl.algo.encoded_obs import EncodedObs
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.chain import randn


def same_noise_loss(
    student: DenoisingPolicy,
    teacher: DenoisingPolicy,
    obs: EncodedObs,
    generator: torch.Generator,
) -> Tensor:
    """‖student(z, o) − teacher(z, o)‖² in normalised action units, both deterministic; (B,).

    Args:
        student: One-step policy.
        teacher: Its evaluation sampler gives the target.
        obs: B observations that the student visits.
        generator: Draws z.
    """
    noise = randn((obs.num_rows, teacher.horizon, teacher.act_spec.size), generator)
    with torch.no_grad():
        target = obs.decode(teacher, noise)
    return (obs.decode(student, noise) - target).square().mean(dim=(1, 2))
