"""On-policy distillation: the chains of a student are drawn towards those of a teacher.

The reverse KL of two chains is a sum over denoising steps. Each step compares two Gaussian kernels
at the student's own x[k], in closed form. The teacher thus corrects what the student itself does,
at states that the student visits. The teacher may be larger, or read items that the student lacks.

Sources: reverse KL on the student's own samples, Agarwal et al. 2024, arXiv 2306.13649, section 3;
KL of a chain as a sum over its Gaussian steps, Fan et al. 2023, arXiv 2305.16381, section 4.2.

Shapes: B rows, H horizon, A act_dim, K denoising steps.
"""

from __future__ import annotations

import torch
from torch import Tensor

from robo_rl.core.errors import SpecError
from robo_rl.policy.base import DenoisingPolicy


def chain_kl(
    student: DenoisingPolicy,
    teacher: DenoisingPolicy,
    obs: dict[str, Tensor],
    std_floor: float,
    generator: torch.Generator,
) -> Tensor:
    """K · ‖μ_S − μ_T‖² / (2σ²·H·A) at one step k of each row; (B,).

    k is uniform, so that the expectation is the KL of the chains, per element. σ is the student's
    standard deviation at step k, at least ``std_floor``. Without a floor the KL of a step without
    noise is infinite, and steps with little noise outweigh the others.

    Args:
        student: Gradients flow through its kernel alone; x[k] comes from its chain.
        teacher: See ``make_teacher``.
        obs: Name → (B, To, …); items of both policies.
        std_floor: Least σ, in normalised action units.
        generator: Draws the chains and the steps.
    """
    with torch.no_grad():
        x = student.sample(obs, generator).x
        steps, rows = student.num_steps, torch.arange(len(x), device=x.device)
        k = torch.randint(steps, (len(x),), generator=generator, device=generator.device)
        wanted = teacher.kernel(teacher.encode(obs), k, x[rows, k]).mean
    own = student.kernel(student.encode(obs), k, x[rows, k])
    gap = (own.mean - wanted) / own.std.detach().clamp(min=std_floor)
    return steps * gap.square().mean(dim=(1, 2)) / 2


def make_teacher(teacher: DenoisingPolicy, student: DenoisingPolicy) -> DenoisingPolicy:
    """Return the teacher without gradients, with the student's sampler in place of its own.

    Raises:
        SpecError: x[k] means something else to the teacher: another family, another size of chains,
            other actions, or another normalisation of actions.
    """
    for what, ours, theirs in (
        ("policy family", student.family, teacher.family),
        ("obs_horizon", student.obs_horizon, teacher.obs_horizon),
        ("horizon", student.horizon, teacher.horizon),
        ("num_steps", student.num_steps, teacher.num_steps),
        ("relative_to", student.cfg.relative_to, teacher.cfg.relative_to),
        ("actions", student.act_spec, teacher.act_spec),
        ("range of actions", _act_range(student), _act_range(teacher)),
    ):
        if ours != theirs:
            hint = "give teacher and student the same chains, and clone both from one dataset"
            problem = f"the teacher has another {what}"
            raise SpecError(problem, expected=ours, found=theirs, hint=hint)
    teacher.sampler, teacher.correlation = student.sampler, student.correlation
    return teacher.eval().requires_grad_(False)


def _act_range(policy: DenoisingPolicy) -> tuple[list[float], list[float]]:
    affine = policy.normalizer.affine("act")
    return affine.shift.tolist(), affine.scale.tolist()
