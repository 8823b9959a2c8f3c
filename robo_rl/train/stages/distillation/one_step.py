"""Stage ``distill``: distils the teacher's chain to one step, on states that the student visits."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from robo_rl.algo.same_noise_distillation import same_noise_loss
from robo_rl.config.registry import Component
from robo_rl.core.seeding import seeded_initialization
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.one_step import make_one_step_student
from robo_rl.train.checkpoint.policies import check_distillable, load_policy, save_policy
from robo_rl.train.evaluation.evaluate import EvalProtocol
from robo_rl.train.evaluation.gate import comparison_gate, low_power_warning
from robo_rl.train.pipeline.stage import Context, Report, Stage
from robo_rl.train.stages.distillation.rounds import DistillationRounds, RoundsConfig
from robo_rl.train.stages.video import record_video

WHY = "distillation"


class Distill(Stage):
    """Alternates rounds of acting with the student and regression onto the teacher, as in DAgger.

    The first round acts with the teacher, every later one with the current student. The student
    starts from the teacher's weights, or from the joint student of the teacher's stage.

    Args:
        cfg: See ``Config``.
    """

    class Config(RoundsConfig):
        """Rounds, env decisions and gradient steps of each, and the gate's margin.

        The student passes if its success, or return, is shown to be no more than ``margin`` below
        the teacher's, on the same start states; see ``compare``. ``warm_start_student`` starts from
        the joint student of the teacher's stage, if there is one.
        """

        margin: float = Field(default=0.03, gt=0.0, lt=1.0)
        """Largest loss of success or return that the gate accepts."""
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
        cfg.check_memory(policy)

    @classmethod
    def low_power_warning(cls, cfg: Config, protocol: EvalProtocol) -> str | None:
        """See ``Stage``."""
        return low_power_warning(protocol, cfg.margin)

    def run(self, context: Context) -> Report:
        """Distil, evaluate student and teacher on the same start states, and save the student."""
        teacher = load_policy(context.artifact("policy"), context.device)
        check_distillable(teacher.cfg, WHY)
        self.check_resources(self.cfg, teacher, context.directory)
        joint = self._joint_student(context)
        with seeded_initialization("student", context.seed):
            student = (
                make_one_step_student(teacher)
                if joint is None
                else load_policy(joint, teacher.device).train()
            )
        rounds = DistillationRounds(
            self.cfg,
            context,
            student,
            lambda student, obs, draw: same_noise_loss(student, teacher, obs, draw),
            first=teacher,
        )
        loss = rounds.train(context.directory)
        path = save_policy(context.directory / "policy", rounds.student)
        report = Report(
            "distill",
            numbers={
                "loss": loss,
                "env_steps": rounds.env_steps,
                **({} if joint is None else {"began_with": "joint_student"}),
            },
            artifacts={"policy": path.name, "student": path.name},
            files=record_video(context, rounds.student, "rollout.mp4"),
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

    def _joint_student(self, context: Context) -> Path | None:
        wanted = self.cfg.warm_start_student
        return context.sibling_artifact("policy", "joint_student") if wanted else None
