"""A one-step student that learns beside a policy, while reinforcement learning changes that.

RL-100 distils jointly (Lei et al. 2025, arXiv 2510.14830, "action_same_noise"): the teacher is the
policy as it stands by then, and what the student comes to changes nothing about it.
"""

from __future__ import annotations

import sys
import time
from typing import ClassVar

from pydantic import Field
from torch import Tensor

from robo_rl.algo.same_noise_distillation import visited_loss
from robo_rl.algo.supervised import SupervisedTrainer
from robo_rl.config.models import ConfigModel
from robo_rl.core.seeding import make_generator, seeded_initialization
from robo_rl.core.stateful import Stateful
from robo_rl.data.rollout import Rollout
from robo_rl.distributed.process_group import rank_info, single_process
from robo_rl.optim.scalars import numbers
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.one_step import make_one_step_student
from robo_rl.train.checkpoint.policies import check_distillable

WHY = "a student beside it"

_ENDLESS = sys.maxsize
"""The rate never decays: the policy moves for as long as it is trained, and that may end early."""


class JointDistillation(Stateful):
    """Regresses a student onto a policy after each of its updates, at the states of its block.

    The student begins as the policy does and shares its normaliser. Its random streams are its own,
    so that the policy is the same with and without it. Where the policy goes back to an earlier
    one, the student goes on from where it is.

    Args:
        cfg: See Config.
        policy: That it begins with.
        seed: Of what the policy cannot lend it, and of its rows and noise.

    Raises:
        ConfigError: Evaluating the policy draws noise on its way.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("trainer", "generator")

    class Config(ConfigModel):
        """Gradient steps after an update of the policy, 0 for no student, and rows of each.

        After ``warmup_steps`` the learning rate is constant.
        """

        steps: int = Field(default=0, ge=0)
        """Gradient steps of the student after each update; 0 trains no student."""
        batch: int = Field(default=512, ge=1)
        """Rows of a gradient step."""
        optim: SupervisedTrainer.Config = SupervisedTrainer.Config(lr=5e-4)
        """Optimiser, its schedule and the averaging of weights."""

    def __init__(self, cfg: Config, policy: DenoisingPolicy, seed: int) -> None:
        check_distillable(policy.cfg, WHY)
        with seeded_initialization("apprentice", seed):
            student = make_one_step_student(policy)
        student.normalizer = policy.normalizer
        self.cfg, self.trainer = cfg, SupervisedTrainer(cfg.optim, student, _ENDLESS)
        self.generator = make_generator("apprentice", seed, device=policy.device)

    @classmethod
    def of(cls, cfg: Config, policy: DenoisingPolicy, seed: int) -> JointDistillation | None:
        """That of a run: none where none is wanted, else the first process has it."""
        found = cls(cfg, policy, seed) if cfg.steps else None
        return found if rank_info().rank == 0 else None

    @property
    def student(self) -> DenoisingPolicy:
        """The student by its averaged weights, which are what counts."""
        return self.trainer.ema.module

    def update(self, policy: DenoisingPolicy, rollout: Rollout) -> dict[str, float]:
        """Take the steps that are due, alone whatever other processes do meanwhile.

        Args:
            policy: As it is by now.
            rollout: The block that it was updated by; without valid decisions there is no step.

        Returns:
            ``student_loss``, the mean over the steps, and ``student_s``, the time they took.
        """
        start, seen = time.perf_counter(), _states(rollout)
        losses = list[Tensor]()
        with single_process():
            for _ in range(self.cfg.steps if len(next(iter(seen.values()))) else 0):
                student, rows = self.trainer.policy, self.cfg.batch
                loss = visited_loss(student, policy, seen, rows, self.generator)
                losses.append(self.trainer.step(loss))
        mean = sum(numbers(losses)) / len(losses) if losses else float("nan")
        return {"student_loss": mean, "student_s": time.perf_counter() - start}


def _states(rollout: Rollout) -> dict[str, Tensor]:
    """What was acted on in the run's first part, which is the first process' in every split.

    So what the student learns follows from the parts, and not from how many processes have them.
    """
    rows = {name: rollout.rows(seen) for name, seen in rollout.obs.items()}
    shards = rollout.shards
    return rows if shards is None else {name: seen[shards == 0] for name, seen in rows.items()}
