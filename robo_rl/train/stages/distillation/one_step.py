"""Stage ``distill``: distils the teacher's chain to one step, on states that the student visits."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from robo_rl.algo.encoded_obs import demand_shared_encoder
from robo_rl.algo.same_noise_distillation import same_noise_loss
from robo_rl.config.component import Component
from robo_rl.core.errors import ConfigError
from robo_rl.core.seeding import seeded_initialization
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.one_step import make_one_step_student
from robo_rl.train.checkpoint.policies import check_distillable, load_policy, save_policy
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.stage import Context, Report
from robo_rl.train.stages.distillation.rounds import DistillationRounds, RoundsConfig
from robo_rl.train.stages.distillation.taught import TaughtStage
from robo_rl.train.stages.video import record_video

WHY = "distillation"
_OTHER_FIRST_STEPS = "RL gives the last denoising steps another encoder than the first"
_ONE_ENCODER = "false, or online.algo.freeze_encoder: true, or finetune_steps: 0"


class Distill(TaughtStage):
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
        the joint student of the teacher's stage, if there is one. With ``freeze_encoder`` teacher
        and student share the teacher's encoder, which encodes the visited states once a round.
        """

        warm_start_student: bool = True
        """Whether training begins from the one-step student of an earlier stage."""

    makes: ClassVar = ("policy", "student")
    label: ClassVar[str] = "one step"

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg

    @classmethod
    def check_policy(cls, cfg: Config, policy: Component[DenoisingPolicy]) -> None:
        """See ``Stage``."""
        del cfg
        check_distillable(policy.cfg, WHY)

    @classmethod
    def check_experiment(cls, cfg: Config, experiment: Experiment) -> None:
        """Check that ``freeze_encoder`` finds one encoder of teacher and student.

        Raises:
            ConfigError: RL trains the encoder of some denoising steps alone, or a joint student.
        """
        if cfg.freeze_encoder:
            _demand_one_encoder(cfg, experiment)

    def run(self, context: Context) -> Report:
        """Distil, evaluate student and teacher on the same start states, and save the student."""
        teacher = self.read_teacher(context)
        check_distillable(teacher.cfg, WHY)
        self.check_resources(self.cfg, teacher, context.directory)
        joint = self._joint_student(context)
        with seeded_initialization("student", context.seed):
            student = (
                make_one_step_student(teacher)
                if joint is None
                else load_policy(joint, teacher.device).train()
            )
        if self.cfg.freeze_encoder:
            _demand_teachers_encoder(teacher, student)
        rounds = DistillationRounds(
            self.cfg,
            context,
            student,
            lambda student, obs, draw: same_noise_loss(student, teacher, obs, draw),
            stream="distill",
            first=teacher,
            freeze_encoder=self.cfg.freeze_encoder,
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
        return self.compare(context, report, self.cfg.margin)

    def read_teacher(self, context: Context) -> DenoisingPolicy:
        """Load the newest policy."""
        return load_policy(context.artifact("policy"), context.device)

    def _joint_student(self, context: Context) -> Path | None:
        wanted = self.cfg.warm_start_student
        return context.sibling_artifact("policy", "joint_student") if wanted else None


def _demand_teachers_encoder(teacher: DenoisingPolicy, student: DenoisingPolicy) -> None:
    net, base = teacher.net, teacher.reference_net
    wanted = "false, or warm_start_student: false"
    demand_shared_encoder(net, student.net, "the joint student has another encoder", wanted)
    if base is not None and teacher.num_trained < teacher.num_steps:
        demand_shared_encoder(net, base, _OTHER_FIRST_STEPS, _ONE_ENCODER)


def _demand_one_encoder(cfg: Distill.Config, experiment: Experiment) -> None:
    """Check that no earlier stage gives the joint student or the first steps another encoder."""
    for label, stage in experiment.stages.items():
        online: Any = stage.cfg
        if stage.cls is Distill or not hasattr(online, "student"):
            continue
        if cfg.warm_start_student and online.student.steps:
            raise ConfigError(
                "the joint student has an encoder of its own",
                where="distill.freeze_encoder",
                expected="false, or warm_start_student: false",
                found=f"{label}.student.steps {online.student.steps}",
            )
        asked, own = online.exploration.finetune_steps, experiment.policy.cfg
        trained = own.finetune_steps if asked is None else asked
        kept = getattr(online.algo.cfg, "freeze_encoder", False)
        if not kept and 0 < trained < own.num_steps:
            where, found = "distill.freeze_encoder", f"{label}: finetune_steps {trained}"
            raise ConfigError(_OTHER_FIRST_STEPS, where=where, expected=_ONE_ENCODER, found=found)
