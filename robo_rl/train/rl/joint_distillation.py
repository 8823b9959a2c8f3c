"""Joint distillation of a one-step student during reinforcement learning.

As in RL-100 (Lei et al. 2025, arXiv 2510.14830, "action_same_noise"), the teacher is the current
policy. The student does not influence the policy.
"""

from __future__ import annotations

import copy
import sys
import time
from typing import ClassVar

from pydantic import Field
from torch import Tensor

from robo_rl.algo.encoded_obs import EncodedObs
from robo_rl.algo.same_noise_distillation import same_noise_loss
from robo_rl.algo.supervised import SupervisedTrainer, draw_rows
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
"""Number of steps of the schedule: the learning rate never decays, since training may end early."""


class JointDistillation(Stateful):
    """Regresses a student onto a policy after each update, at the states of its rollout.

    The student starts from the policy's weights and shares its normaliser until ``finish``. It has
    its own random
    streams, so the policy is the same with and without it. A rollback of the policy does not change
    the student. Where training ends with an earlier policy (``FinalChoice``), the student is still
    that of the last one, and the stage ``distill`` brings it to the kept policy.

    Args:
        cfg: See ``Config``.
        policy: Initial policy.
        seed: Seed of newly initialised parameters, of rows and of noise.

    Raises:
        ConfigError: The policy draws noise in evaluation and cannot be distilled.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("trainer", "generator")

    class Config(ConfigModel):
        """Gradient steps after each update of the policy, and rows of each step.

        The learning rate is constant after ``warmup_steps``.
        """

        steps: int = Field(default=0, ge=0)
        """Gradient steps of the student after each update; 0 trains no student."""
        batch: int = Field(default=512, ge=1)
        """Rows of a gradient step."""
        optim: SupervisedTrainer.Config = SupervisedTrainer.Config(lr=5e-4)
        """Optimiser, learning-rate schedule and weight averaging."""

    def __init__(self, cfg: Config, policy: DenoisingPolicy, seed: int) -> None:
        check_distillable(policy.cfg, WHY)
        with seeded_initialization("apprentice", seed):
            student = make_one_step_student(policy)
        student.normalizer = policy.normalizer
        self.cfg, self.trainer = cfg, SupervisedTrainer(cfg.optim, student, _ENDLESS)
        self.generator = make_generator("apprentice", seed, device=policy.device)

    @classmethod
    def of(cls, cfg: Config, policy: DenoisingPolicy, seed: int) -> JointDistillation | None:
        """Return the student of a run; None without steps and in all processes but the first."""
        found = cls(cfg, policy, seed) if cfg.steps else None
        return found if rank_info().rank == 0 else None

    @property
    def student(self) -> DenoisingPolicy:
        """The student with its averaged weights, which is evaluated and kept."""
        return self.trainer.ema.module

    def finish(self) -> None:
        """Keep the present normaliser: training may end with an earlier policy, and its own."""
        kept = copy.deepcopy(self.trainer.policy.normalizer)
        self.trainer.policy.normalizer = self.student.normalizer = kept

    def update(self, policy: DenoisingPolicy, rollout: Rollout) -> dict[str, float]:
        """Take the due gradient steps in this process alone.

        Args:
            policy: Current policy.
            rollout: Rollout of the policy's last update; without valid decisions no step is taken.

        Returns:
            ``student_loss``, the mean over the steps, and ``student_s``, their duration in s.
        """
        start, seen = time.perf_counter(), _states(rollout)
        losses = list[Tensor]()
        with single_process():
            for _ in range(self.cfg.steps if len(next(iter(seen.values()))) else 0):
                obs = EncodedObs(draw_rows(seen, self.cfg.batch, self.generator))
                loss = same_noise_loss(self.trainer.policy, policy, obs, self.generator)
                losses.append(self.trainer.step(loss))
        mean = sum(numbers(losses)) / len(losses) if losses else float("nan")
        return {"student_loss": mean, "student_s": time.perf_counter() - start}


def _states(rollout: Rollout) -> dict[str, Tensor]:
    """Return the valid observations of the first shard, which the first process always holds.

    The student thus depends on the shards and not on the number of processes.
    """
    rows = {name: rollout.rows(seen) for name, seen in rollout.obs.items()}
    shards = rollout.shards
    return rows if shards is None else {name: seen[shards == 0] for name, seen in rows.items()}
