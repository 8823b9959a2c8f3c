"""Stage ``distill``: distils the teacher's chain to one step, on states that the student visits."""

from __future__ import annotations

from contextlib import ExitStack, closing
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.same_noise_distillation import visited_loss
from robo_rl.algo.supervised import SupervisedTrainer
from robo_rl.config.models import ConfigModel
from robo_rl.config.registry import Component
from robo_rl.core.memory import demand_memory
from robo_rl.core.seeding import derive, make_generator, seeded_initialization
from robo_rl.core.stateful import Stateful
from robo_rl.env.chunk_env import ChunkEnv
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.one_step import make_one_step_student
from robo_rl.train.checkpoint.policies import check_distillable, load_policy, save_policy
from robo_rl.train.checkpoint.resumable_steps import take_steps
from robo_rl.train.evaluation.evaluate import EvalProtocol
from robo_rl.train.evaluation.gate import comparison_gate, low_power_warning
from robo_rl.train.pipeline.stage import Context, Report, Stage
from robo_rl.train.stages.video import record_video

WHY = "distillation"

LOG_EVERY = 100
"""Steps between lines of ``metrics.jsonl``."""


class Distill(Stage):
    """Alternates rounds of acting with the student and regression onto the teacher, as in DAgger.

    The first round acts with the teacher, every later one with the current student. The student
    starts from the teacher's weights, or from the joint student of the teacher's stage.

    Args:
        cfg: See ``Config``.
    """

    class Config(ConfigModel):
        """Rounds, env decisions and gradient steps of each, and the gate's margin.

        The student passes if its success, or return, is shown to be no more than ``margin`` below
        the teacher's, on the same start states; see ``compare``. ``warm_start_student`` starts from
        the joint student of the teacher's stage, if there is one.
        """

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
        margin: float = Field(default=0.03, gt=0.0, lt=1.0)
        """Largest loss of success or return that the gate accepts."""
        optim: SupervisedTrainer.Config = SupervisedTrainer.Config(lr=5e-4)
        """Optimiser, learning-rate schedule and weight averaging."""
        warm_start_student: bool = True
        """Whether training begins from the one-step student of an earlier stage."""

    needs: ClassVar = ("policy",)
    makes: ClassVar = ("policy", "student")

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg

    @classmethod
    def check_policy(cls, cfg: Config, policy: Component[DenoisingPolicy]) -> None:
        """See ``Stage``."""
        del cfg
        check_distillable(policy.cfg, WHY)

    @classmethod
    def check_resources(cls, cfg: Config, policy: DenoisingPolicy, folder: Path) -> None:
        """See ``Stage``: the visited states of all rounds."""
        del folder
        if policy.device.type == "cpu":
            states = cfg.rounds * cfg.decisions * cfg.num_envs
            needed = 2 * states * policy.obs_horizon * policy.env_spec.num_bytes  # also a copy
            hint = "lower rounds, decisions or num_envs of the stage, or the size of the images"
            demand_memory(needed, f"{states:,} visited states", hint)

    @classmethod
    def low_power_warning(cls, cfg: Config, protocol: EvalProtocol) -> str | None:
        """See ``Stage``."""
        return low_power_warning(protocol, cfg.margin)

    def run(self, context: Context) -> Report:
        """Distil, evaluate student and teacher on the same start states, and save the student."""
        teacher = load_policy(context.artifact("policy"), context.device)
        check_distillable(teacher.cfg, WHY)
        self.check_resources(self.cfg, teacher, context.directory)
        run = _Run(self.cfg, context, teacher)
        loss = run.train(context.directory)
        student = run.trainer.ema.module
        path = save_policy(context.directory / "policy", student)
        report = Report(
            "distill",
            numbers={
                "loss": loss,
                "env_steps": run.env_steps,
                **({} if run.joint_student is None else {"began_with": "joint_student"}),
            },
            artifacts={"policy": path.name, "student": path.name},
            files=record_video(context, student, "rollout.mp4"),
            curves={"loss": {"x": "step", "y": "loss"}},
        )
        return self.evaluate(context, report)

    def evaluate(self, context: Context, report: Report) -> Report:
        """See ``Reevaluable``: evaluates the student and its teacher."""
        student = load_policy(context.directory / report.artifacts["policy"], context.device)
        result = context.evaluate(student, "one step")
        reference = context.evaluate(
            load_policy(context.artifact("policy"), context.device), "teacher"
        )
        report.update_numbers({**result.report_numbers(), **reference.report_numbers("teacher_{}")})
        report.gate = comparison_gate(
            "non-inferior to the teacher", result, reference, self.cfg.margin
        )
        return report


class _Run(Stateful):
    """The rounds and their state, with a checkpoint after each round.

    A round collects states first. A run that resumes within a round does not collect them again.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("trainer", "visited", "env_steps")

    def __init__(self, cfg: Distill.Config, context: Context, teacher: DenoisingPolicy) -> None:
        self.cfg, self.context, self.teacher = cfg, context, teacher
        self.joint_student = (
            context.sibling_artifact("policy", "joint_student") if cfg.warm_start_student else None
        )
        with seeded_initialization("student", context.seed):
            student = (
                make_one_step_student(teacher)
                if self.joint_student is None
                else load_policy(self.joint_student, teacher.device).train()
            )
        self.trainer = SupervisedTrainer(cfg.optim, student, cfg.rounds * cfg.steps)
        self.generator = make_generator("distill", context.seed, device=teacher.device)
        self.visited: dict[str, Tensor] = {}
        self.env_steps = 0

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
            self._visit()
        student, rows = self.trainer.policy, self.cfg.batch
        loss = visited_loss(student, self.teacher, self.visited, rows, self.generator)
        return {"loss": self.trainer.step(loss)}

    @torch.no_grad()
    def _visit(self) -> None:
        """Add the states that this round's policy visits."""
        policy = self.teacher if self.trainer.done == 0 else self.trainer.ema.module
        number = self.trainer.done // self.cfg.steps
        env, obs = self._env, self._env.reset(derive("distill", self.context.seed, number))
        seen: list[dict[str, Tensor]] = [self.visited] if self.visited else []
        for _ in range(self.cfg.decisions):
            seen.append(obs)
            step = env.step(policy.act(obs, self.generator))
            self.env_steps += int(step.num_exec.sum())
            obs = step.obs
        self.visited = {name: torch.cat([o[name] for o in seen]) for name in obs}

    @cached_property
    def _env(self) -> ChunkEnv:
        """The env of all rounds; ``train`` closes it."""
        teacher = self.teacher
        env = ChunkEnv(
            self.context.experiment.make_env(self.cfg.num_envs, teacher.device),
            obs_horizon=teacher.obs_horizon,
            exec_horizon=teacher.exec_horizon,
            gamma=1.0,
        )
        return self._open.enter_context(closing(env))

    def _loaded(self) -> None:
        device = self.teacher.device
        self.visited = {name: seen.to(device) for name, seen in self.visited.items()}
