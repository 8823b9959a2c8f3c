"""Rounds of distillation: a policy acts, then a student is trained at all visited states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.encoded_obs import EncodedObs, encoded_bytes
from robo_rl.algo.supervised import SupervisedTrainer, draw_pick
from robo_rl.config.models import OmitsDefaults
from robo_rl.core.errors import DataError
from robo_rl.core.memory import demand_memory
from robo_rl.core.seeding import derive, make_generator
from robo_rl.core.stateful import Stateful
from robo_rl.env.chunk_env import ChunkEnv
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.resumable_steps import take_steps
from robo_rl.train.pipeline.stage import Context

LOG_EVERY = 100
"""Steps between lines of ``metrics.jsonl``."""

Loss = Callable[[DenoisingPolicy, EncodedObs, torch.Generator], Tensor]
"""(student, B observations, generator) → loss (B,)."""


class RoundsConfig(OmitsDefaults):
    """Rounds, env decisions and gradient steps of each."""

    omitted: ClassVar[tuple[str, ...]] = ("freeze_encoder",)

    rounds: int = Field(default=4, ge=1)
    """Rounds of collecting states and regression."""
    num_envs: int = Field(default=128, ge=1)
    """Envs that are stepped at once."""
    decisions: int = Field(default=20, ge=1)
    """Decisions per env and round."""
    steps: int = Field(default=1000, ge=1)
    """Gradient steps of a round."""
    batch: int = Field(default=512, ge=1)
    """Rows of a gradient step."""
    optim: SupervisedTrainer.Config = SupervisedTrainer.Config(lr=5e-4)
    """Optimiser, learning-rate schedule and weight averaging."""
    margin: float = Field(default=0.03, gt=0.0, lt=1.0)
    """Largest loss of success or return that the gate accepts."""
    freeze_encoder: bool = False
    """Whether the student's encoder keeps its weights, and encodes the visited states once a
    round."""

    def check_memory(self, policy: DenoisingPolicy) -> None:
        """Check that the visited states of all rounds, and their encodings, fit into memory.

        Raises:
            DeviceError: They do not.
        """
        if policy.device.type == "cpu":
            states = self.rounds * self.decisions * self.num_envs
            row = policy.obs_horizon * policy.env_spec.num_bytes
            row += encoded_bytes(policy) if self.freeze_encoder else 0
            hint = "lower rounds, decisions or num_envs of the stage, or the size of the images"
            demand_memory(2 * states * row, f"{states:,} visited states", hint)  # also a copy


class TeacherIdentity(NamedTuple):
    """A teacher that is no stage of the run.

    Args:
        path: Its directory, as settings name it.
        digest: Digest of its weights.
    """

    path: str
    digest: str

    def demand(self, before: str) -> None:
        """Check that an earlier digest is that of the same weights.

        Raises:
            DataError: It is another.
        """
        if before != self.digest:
            raise DataError(
                "another policy than the student's teacher",
                where=self.path,
                expected=before,
                found=self.digest,
                hint="put it back, or run the experiment under another name=…",
            )


class DistillationRounds(Stateful):
    """The rounds and their state, with a checkpoint after each round.

    A round collects states first. A run that resumes within a round does not collect them again.

    Args:
        cfg: Sizes.
        context: Of the stage.
        student: Trained in place.
        loss: Its loss at visited observations.
        stream: Name of the random streams.
        first: The policy that acts in the first round; None for the student, as in the others.
        freeze_encoder: Whether the student's encoder keeps its weights, and encodes the visited
            states once a round.
        teacher: A teacher outside the run, which must stay the same.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("trainer", "visited", "env_steps", "teacher")

    def __init__(
        self,
        cfg: RoundsConfig,
        context: Context,
        student: DenoisingPolicy,
        loss: Loss,
        *,
        stream: str,
        first: DenoisingPolicy | None = None,
        freeze_encoder: bool = False,
        teacher: TeacherIdentity | None = None,
    ) -> None:
        self.cfg, self.context, self.stream = cfg, context, stream
        self._teacher = teacher
        self.loss, self.first, self.freeze_encoder = loss, first, freeze_encoder
        self._encoded: EncodedObs | None = None
        if freeze_encoder:
            student.net.encoder.requires_grad_(False)
        self.trainer = SupervisedTrainer(cfg.optim, student, cfg.rounds * cfg.steps)
        self.generator = make_generator(stream, context.seed, device=student.device)
        self.visited: dict[str, Tensor] = {}
        self.env_steps = 0

    @property
    def teacher(self) -> str:
        """Digest of a teacher outside the run; empty without one."""
        return "" if self._teacher is None else self._teacher.digest

    @teacher.setter
    def teacher(self, value: str) -> None:
        if self._teacher is not None:
            self._teacher.demand(value)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a state; that of an older checkpoint does not name the teacher.

        Raises:
            DataError: Another teacher taught the earlier rounds.
        """
        super().load_state_dict({"teacher": self.teacher, **state})

    @property
    def student(self) -> DenoisingPolicy:
        """The student with its averaged weights."""
        return self.trainer.ema.module

    def train(self, folder: Path) -> float:
        """Train the remaining rounds, with checkpoints in ``folder``; return the mean loss."""
        with ExitStack() as self._open:
            means = take_steps(
                folder,
                "distil",
                self.cfg.rounds * self.cfg.steps,
                self,
                self.generator,
                self.step,
                checkpoint_every=self.cfg.steps,
                log_every=LOG_EVERY,
            )
        return means["loss"]

    def step(self) -> dict[str, Tensor]:
        """Take one gradient step, after collecting states at the beginning of a round."""
        if self.trainer.done % self.cfg.steps == 0:
            self._encoded = None
            self._visit()
        states = self._states()
        obs = states.select(draw_pick(states.num_rows, self.cfg.batch, self.generator))
        return {"loss": self.trainer.step(self.loss(self.trainer.policy, obs, self.generator))}

    @torch.no_grad()
    def _visit(self) -> None:
        """Add the states that this round's policy visits."""
        policy = self.first if self.first and self.trainer.done == 0 else self.student
        number = self.trainer.done // self.cfg.steps
        env, obs = self._env, self._env.reset(derive(self.stream, self.context.seed, number))
        seen: list[dict[str, Tensor]] = [self.visited] if self.visited else []
        for _ in range(self.cfg.decisions):
            seen.append(obs)
            step = env.step(policy.act(obs, self.generator))
            self.env_steps += int(step.num_exec.sum())
            obs = step.obs
        self.visited = {name: torch.cat([o[name] for o in seen]) for name in obs}

    def _states(self) -> EncodedObs:
        """Return the visited states, which a frozen encoder encodes once a round."""
        if self._encoded is None:
            states = EncodedObs(self.visited)
            self._encoded = states.through(self.trainer.policy) if self.freeze_encoder else states
        return self._encoded

    @cached_property
    def _env(self) -> ChunkEnv:
        """The env of all rounds; ``train`` closes it."""
        policy = self.trainer.policy
        env = ChunkEnv(
            self.context.experiment.make_env(self.cfg.num_envs, policy.device),
            obs_horizon=policy.obs_horizon,
            exec_horizon=policy.exec_horizon,
            gamma=1.0,
        )
        return self._open.enter_context(closing(env))

    def _loaded(self) -> None:
        device = self.trainer.policy.device
        self.visited = {name: seen.to(device) for name, seen in self.visited.items()}
        self._encoded = None
