"""What the stages that train a student on a teacher share: resources, evaluation and gate."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar

from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.policies import load_policy
from robo_rl.train.evaluation.evaluate import EvalProtocol
from robo_rl.train.evaluation.gate import comparison_gate, low_power_warning
from robo_rl.train.pipeline.stage import Context, Report, Stage
from robo_rl.train.stages.distillation.rounds import RoundsConfig


class TaughtStage(Stage):
    """A stage whose student passes if it is shown to be as good as its teacher, up to a margin."""

    needs: ClassVar = ("policy",)
    label: ClassVar[str]
    """Name of the student on its progress line."""

    @classmethod
    def check_resources(cls, cfg: Any, policy: DenoisingPolicy, folder: Path) -> None:
        """See ``Stage``: the visited states of all rounds."""
        del folder
        cfg.check_memory(policy)

    @classmethod
    def low_power_warning(cls, cfg: RoundsConfig, protocol: EvalProtocol) -> str | None:
        """See ``Stage``."""
        return low_power_warning(protocol, cfg.margin)

    @abstractmethod
    def read_teacher(self, context: Context) -> DenoisingPolicy:
        """Load the teacher."""

    def compare(self, context: Context, report: Report, margin: float) -> Report:
        """Evaluate student and teacher on the same start states, and decide the gate."""
        student = load_policy(context.directory / report.artifacts["policy"], context.device)
        result = context.evaluate(student, self.label)
        reference = context.evaluate(self.read_teacher(context), "teacher")
        report.update_numbers({**result.report_numbers(), **reference.report_numbers("teacher_{}")})
        report.gate = comparison_gate(
            "non-inferior to the teacher", result, reference, margin, looks=report.looks
        )
        return report
