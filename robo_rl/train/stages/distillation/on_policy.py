"""Stage ``opd``: draws the newest policy towards a teacher, at states that it visits itself."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from robo_rl.algo.on_policy_distillation import Teacher, chain_kl
from robo_rl.core.errors import ConfigError
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.policies import (
    check_trains_all_steps,
    load_policy,
    save_policy,
    weights_digest,
)
from robo_rl.train.datasets.spec_checks import demand_items_read
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.stage import Context, Report, find_policy
from robo_rl.train.stages.distillation.rounds import (
    DistillationRounds,
    RoundsConfig,
    TeacherIdentity,
)
from robo_rl.train.stages.distillation.taught import TaughtStage
from robo_rl.train.stages.video import record_video


class DistillOnPolicy(TaughtStage):
    """Alternates rounds of acting with the student and of reducing its KL to the teacher.

    The teacher is a policy of another run, such as one that reads the state of the simulator. It
    labels every state that the student visits, so that few env steps are needed.

    Args:
        cfg: See ``Config``.
    """

    class Config(RoundsConfig):
        """The teacher, rounds, env decisions and gradient steps of each, and the gate's margin.

        The student passes if its success, or return, is shown to be no more than ``margin`` below
        the teacher's, on the same start states; see ``compare``.
        """

        teacher: str
        """Directory of a policy, or of a stage that made one."""
        std_floor: float = Field(default=0.1, gt=0.0)
        """Least standard deviation of a denoising step in the KL, in normalised action units."""

    makes: ClassVar = ("policy",)
    label: ClassVar[str] = "student"

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg

    @classmethod
    def check_inputs(cls, cfg: Config, experiment: Experiment) -> None:
        """See ``StageTraits``: that there is a teacher, which loads.

        Raises:
            ConfigError: There is none.
            CheckpointError: It is damaged.
            DataError: The report of its stage is damaged.
        """
        del experiment
        load_policy(_find_teacher(cfg))

    def run(self, context: Context) -> Report:
        """Distil, evaluate student and teacher on the same start states, and save the student.

        Raises:
            CheckpointError: The teacher is damaged.
            SpecError: It reads other observations than the env's, or has other chains.
            ConfigError: There is no teacher, or RL kept the student's first denoising steps.
        """
        student = load_policy(context.artifact("policy"), context.device).train()
        check_trains_all_steps(student)
        self.check_resources(self.cfg, student, context.directory)
        policy = self.read_teacher(context)
        demand_items_read(Path(self.cfg.teacher), "teacher", policy.obs_spec, student.env_spec)
        told, teacher, floor = weights_digest(policy), Teacher(policy, student), self.cfg.std_floor
        rounds = DistillationRounds(
            self.cfg,
            context,
            student,
            lambda student, obs, draw: chain_kl(student, teacher, obs, floor, draw),
            stream="opd",
            freeze_encoder=self.cfg.freeze_encoder,
            teacher=TeacherIdentity(self.cfg.teacher, told),
        )
        loss = rounds.train(context.directory)
        path = save_policy(context.directory / "policy", rounds.student)
        report = Report(
            "opd",
            numbers={"loss": loss, "env_steps": rounds.env_steps, "teacher": told},
            artifacts={"policy": path.name},
            files=record_video(context, rounds.student, "rollout.mp4"),
            curves={"loss": {"x": "step", "y": "loss"}},
        )
        return self.evaluate(context, report)

    def evaluate(self, context: Context, report: Report) -> Report:
        """See ``Reevaluable``: evaluates the student and its teacher.

        Raises:
            ConfigError: There is no teacher.
            CheckpointError: It is damaged.
            DataError: It is another than that of the training, or its stage's report is damaged.
        """
        found = weights_digest(self.read_teacher(context))
        TeacherIdentity(self.cfg.teacher, found).demand(report.numbers["teacher"])
        return self.compare(context, report, self.cfg.margin)

    def read_teacher(self, context: Context) -> DenoisingPolicy:
        """Load the policy of the settings; it raises what ``check_inputs`` does."""
        return load_policy(_find_teacher(self.cfg), context.device)


def _find_teacher(cfg: DistillOnPolicy.Config) -> Path:
    place, _ = find_policy(Path(cfg.teacher).absolute())
    if not place.is_dir():
        expected = "directory of a policy, or of a stage that made one"
        raise ConfigError("no teacher", where="teacher", expected=expected, found=place)
    return place
