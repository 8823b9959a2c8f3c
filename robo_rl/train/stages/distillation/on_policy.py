"""Stage ``opd``: draws the newest policy towards a teacher, at states that it visits itself."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from robo_rl.algo.on_policy_distillation import chain_kl, make_teacher
from robo_rl.core.errors import SpecError
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.policies import load_policy, save_policy
from robo_rl.train.evaluation.evaluate import EvalProtocol
from robo_rl.train.evaluation.gate import comparison_gate, low_power_warning
from robo_rl.train.pipeline.stage import Context, Report, Stage, find_policy
from robo_rl.train.stages.distillation.rounds import DistillationRounds, RoundsConfig
from robo_rl.train.stages.video import record_video


class DistillOnPolicy(Stage):
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
        margin: float = Field(default=0.03, gt=0.0, lt=1.0)
        """Largest loss of success or return that the gate accepts."""

    needs: ClassVar = ("policy",)
    makes: ClassVar = ("policy",)

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg

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
        """Distil, evaluate student and teacher on the same start states, and save the student.

        Raises:
            CheckpointError: The teacher is missing or damaged.
            SpecError: It reads other observations than the env's, or has other chains.
        """
        student = load_policy(context.artifact("policy"), context.device).train()
        self.check_resources(self.cfg, student, context.directory)
        teacher, floor = self._teacher(context, student), self.cfg.std_floor
        rounds = DistillationRounds(
            self.cfg,
            context,
            student,
            lambda student, obs, draw: chain_kl(student, teacher, obs, floor, draw),
            first=student,
        )
        loss = rounds.train(context.directory)
        path = save_policy(context.directory / "policy", rounds.student)
        report = Report(
            "opd",
            numbers={"loss": loss, "env_steps": rounds.env_steps},
            artifacts={"policy": path.name},
            files=record_video(context, rounds.student, "rollout.mp4"),
            curves={"loss": {"x": "step", "y": "loss"}},
        )
        return self.evaluate(context, report)

    def evaluate(self, context: Context, report: Report) -> Report:
        """See ``Reevaluable``: evaluates the student and its teacher."""
        student = load_policy(context.directory / report.artifacts["policy"], context.device)
        result = context.evaluate(student, "student")
        reference = context.evaluate(self._teacher(context, student), "teacher")
        report.update_numbers({**result.report_numbers(), **reference.report_numbers("teacher_{}")})
        report.gate = comparison_gate(
            "non-inferior to the teacher", result, reference, self.cfg.margin
        )
        return report

    def _teacher(self, context: Context, student: DenoisingPolicy) -> DenoisingPolicy:
        place, _ = find_policy(Path(self.cfg.teacher).absolute())
        teacher = load_policy(place, context.device)
        _demand_items(place, teacher, student)
        return make_teacher(teacher, student)


def _demand_items(place: Path, teacher: DenoisingPolicy, student: DenoisingPolicy) -> None:
    """Check that the student's env has the items that the teacher reads."""
    theirs, ours = teacher.obs_spec.items, student.env_spec.items
    for name, spec in theirs.items():
        if ours.get(name) != spec:
            problem = f"the teacher reads an item '{name}' that the env does not have so"
            raise SpecError(problem, where=place, expected=spec, found=ours.get(name, "none"))
