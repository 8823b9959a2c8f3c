"""On-policy distillation: the chains of a student are drawn towards those of a teacher.

The reverse KL of two chains is a sum over denoising steps. Each step compares two kernels
at the student's own x[k], in closed form. The teacher thus corrects what the student itself does,
at states that the student visits. The teacher may be larger, or read items that the student lacks.

Sources: reverse KL on the student's own samples, Agarwal et al. 2024, arXiv 2306.13649, section 3;
KL of a chain as a sum over its Gaussian steps, Fan et al. 2023, arXiv 2305.16381, section 4.2.

Shapes: B rows, H horizon, A act_dim, K denoising steps.
"""

from __future__ import annotations

import torch
from torch import Tensor

from robo_rl.algo.encoded_obs import EncodedObs
from robo_rl.core.errors import SpecError
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.kernels.base import Kernel


class Teacher:
    """The kernels of a teacher, under the student's sampler.

    Where RL trained the last steps alone, the others are those of the teacher's reference.

    Args:
        policy: The teacher; its sampler becomes the student's.
        student: Policy with the same chains.

    Raises:
        SpecError: x[k] means something else to the teacher, because its family, the size of its
            chains, its actions or their normalisation differ; or it reads another history; or the
            student's first steps have networks of their own.
    """

    def __init__(self, policy: DenoisingPolicy, student: DenoisingPolicy) -> None:
        _demand_same_chains(policy, student)
        policy.sampler = student.sampler
        self.policy = policy.eval().requires_grad_(False)
        self._frozen = policy.num_steps - policy.num_trained if policy.reference_net else 0
        self._base = policy.reference_policy() if self._frozen else None

    @torch.no_grad()
    def kernel(self, obs: dict[str, Tensor], k: Tensor, x: Tensor) -> Kernel:
        """Return the kernel of x[k+1] given x (B, H, A) at steps k (B,)."""
        found = self.policy.kernel(self.policy.encode(obs), k, x)
        if self._base is None:
            return found
        kept = self._base.kernel(self._base.encode(obs), k, x)
        return found.where(k >= self._frozen, kept)


def chain_kl(
    student: DenoisingPolicy,
    teacher: Teacher,
    obs: EncodedObs,
    std_floor: float,
    generator: torch.Generator,
) -> Tensor:
    """K times the KL of one step k of each row, mean over H and A; (B,).

    The KL of a Gaussian step is log(σ_T/σ_S) + (σ_S² + (μ_S − μ_T)²) / (2σ_T²) − ½. k is uniform,
    so that the expectation is the KL of the chains, per element. Both σ are at least ``std_floor``:
    without it the KL of a step without noise is infinite, and steps with little noise outweigh the
    others. The noise of actions of a chunk counts as independent, also where exploration shifts the
    chunk as a whole. Tokens have no σ, and their KL is that of their odds.

    Args:
        student: Gradients flow through its kernel alone; x[k] comes from its chain.
        teacher: The teacher.
        obs: B observations with the items of both policies; encoded by the student's encoder if
            its weights are frozen.
        std_floor: Least σ, in normalised action units.
        generator: Draws the chains and the steps.
    """
    encoded = obs.encoder_result(student)
    with torch.no_grad():
        x = student.sample(obs.items, generator, encoded=encoded).x
    steps, rows = student.num_steps, torch.arange(len(x), device=x.device)
    k = torch.randint(steps, (len(x),), generator=generator, device=generator.device)
    own = student.kernel(student.net.embed(encoded), k, x[rows, k])
    wanted = teacher.kernel(obs.items, k, x[rows, k])
    kl = own.with_spread(std_floor).kl(wanted.with_spread(std_floor))
    return steps * kl.mean(dim=(1, 2))


def _demand_same_chains(teacher: DenoisingPolicy, student: DenoisingPolicy) -> None:
    if student.reference_net is not None and student.num_trained < student.num_steps:
        problem = "the student's first denoising steps have networks of their own"
        raise SpecError(problem, expected="finetune_steps 0", found=student.num_trained)
    names = ("obs_horizon", *student.cfg.chain_settings)
    for what, ours, theirs in (
        ("policy family", student.family, teacher.family),
        *((name, getattr(student.cfg, name), getattr(teacher.cfg, name, None)) for name in names),
        ("noise schedule", *(each.schedule_settings(each.cfg) for each in (student, teacher))),
        ("actions", student.act_spec, teacher.act_spec),
        ("range of actions", _act_range(student), _act_range(teacher)),
    ):
        if ours != theirs:
            hint = "give teacher and student the same chains, and clone both from one dataset"
            problem = f"the teacher has another {what}"
            raise SpecError(problem, expected=ours, found=theirs, hint=hint)


def _act_range(policy: DenoisingPolicy) -> tuple[list[float], list[float]]:
    affine = policy.normalizer.affine("act")
    return affine.shift.tolist(), affine.scale.tolist()
