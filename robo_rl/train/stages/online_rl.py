"""Stage ``online``: reinforcement learning of the policy in a vectorised env."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from robo_rl.api.env import check_groups
from robo_rl.config.component import Component
from robo_rl.core.errors import ConfigError
from robo_rl.distributed.process_group import rank_info
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.policies import check_distillable, load_policy, save_policy
from robo_rl.train.evaluation.evaluate import EvalProtocol
from robo_rl.train.evaluation.gate import comparison_gate, low_power_warning
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.preflight.policy import check_policy_fits
from robo_rl.train.pipeline.processes.multi_process import pinned_resources
from robo_rl.train.pipeline.stage import Context, Report, Stage
from robo_rl.train.rl.collector_factory import demand_rollout_memory
from robo_rl.train.rl.exploration.exploring_policy import exploration_policy, with_exploration
from robo_rl.train.rl.joint_distillation import WHY
from robo_rl.train.rl.loop import ALGO_FILES, Loop
from robo_rl.train.rl.loop_config import LoopConfig
from robo_rl.train.rl.shards import check_shards
from robo_rl.train.stages.video import record_video


class OnlineRl(Stage):
    """Fine-tunes the newest policy until the budget is spent or training success suffices.

    With joint distillation the stage also makes a ``joint_student``.

    Args:
        cfg: See ``Config``.
    """

    class Config(LoopConfig):
        """See ``LoopConfig``; ``margin`` is the largest loss that the gate accepts."""

        margin: float = Field(default=0.03, gt=0.0, lt=1.0)
        """Largest loss of success or return that the gate accepts."""

    needs: ClassVar = ("policy",)
    makes: ClassVar = ("policy", "teacher", "joint_student")
    probes: ClassVar = True

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg

    @classmethod
    def needed_artifacts(cls, cfg: Config) -> tuple[str, ...]:
        """See ``StageTraits``: also a success classifier, and critics to start from."""
        options = {
            "success": cfg.process_reward.weight,
            "critics": getattr(cfg.algo.cfg, "warm_start_critics", False),
        }
        return (*cls.needs, *(kind for kind, is_used in options.items() if is_used))

    @classmethod
    def output_policy(
        cls, cfg: Config, policy: Component[DenoisingPolicy] | None, own: Component[DenoisingPolicy]
    ) -> Component[DenoisingPolicy] | None:
        """See ``Stage``."""
        del own
        return policy and (exploration_policy(policy, cfg.exploration) or policy)

    @classmethod
    def check_policy(cls, cfg: Config, policy: Component[DenoisingPolicy]) -> None:
        """See ``Stage``."""
        acting = exploration_policy(policy, cfg.exploration) or policy
        check_policy_fits(cfg.algo, acting)
        reused = getattr(cfg.algo.cfg, "reused_rollouts", 0)
        if reused and cfg.running_obs_stats and acting.cfg.finetune_steps:
            raise ConfigError(
                "reused_rollouts: the statistics of observations change the steps that are not"
                " trained, and these have no ratio",
                where="algo.reused_rollouts",
                expected="0, or running_obs_stats: false, or finetune_steps: 0",
                found=reused,
            )
        if cfg.student.steps:
            check_distillable(acting.cfg, WHY)
        size = getattr(cfg.algo.cfg, "group_size", 1)
        if cfg.num_envs != "auto":
            check_groups(size, cfg.num_envs)

    @classmethod
    def check_experiment(cls, cfg: Config, experiment: Experiment) -> None:
        """See ``Stage``: the processes of the launch."""
        count = max(experiment.launch.processes, experiment.launch.gpus, 1)
        cfg.algo.cls.check_processes(cfg.algo.cfg, count)
        if cfg.num_envs != "auto":
            check_shards(cfg.shards or count, count, cfg.num_envs)

    @classmethod
    def learns_values_from_data(cls, cfg: Config) -> bool:
        """See ``StageTraits``."""
        return cfg.algo.cls.learns_from_dataset(cfg.algo.cfg)

    @classmethod
    def check_resources(cls, cfg: Config, policy: DenoisingPolicy, folder: Path) -> None:
        """See ``Stage``: rollouts, and what the algorithm keeps."""
        if cfg.num_envs != "auto" and getattr(cfg.algo.cfg, "group_size", 1) == 1:
            reused = getattr(cfg.algo.cfg, "reused_rollouts", 0)
            demand_rollout_memory(policy, cfg.num_envs * cfg.decisions, reused)
        cfg.algo.cls.check_resources(cfg.algo.cfg, policy, folder / ALGO_FILES)

    @classmethod
    def low_power_warning(cls, cfg: Config, protocol: EvalProtocol) -> str | None:
        """See ``Stage``."""
        return low_power_warning(protocol, cfg.margin)

    def assist(self, context: Context) -> Loop:
        """Train the remaining updates together with the other processes."""
        with pinned_resources():
            policy = load_policy(context.artifact("policy"), context.device)
            run = Loop(
                self.cfg, context, with_exploration(policy, self.cfg.exploration, context.seed)
            )
            run.train()
        return run

    def run(self, context: Context) -> Report:
        """Train the remaining updates, evaluate, and save the policy."""
        run = self.assist(context)
        path = save_policy(context.directory / "policy", run.eval_policy)
        head = _head(run, context)
        report = Report(
            "online",
            numbers={
                "env_steps": run.collector.env_steps,
                "updates": run.algo.updates,
                "rollbacks": run.guard.rollbacks,
                "ended_with": run.ended_with,
                **run.final_choice.numbers,
                **_whose(run),
            },
            artifacts={"policy": path.name, "teacher": path.name, **head.artifacts},
            files=record_video(context, run.eval_policy, "rollout.mp4"),
            curves={
                "success": {"x": "env_steps", "y": "success"},
                "return": {"x": "env_steps", "y": "return"},
                "kl": {"x": "env_steps", "y": "kl"},
                **head.curves,
            },
        )
        return self.evaluate(context, report)

    def evaluate(self, context: Context, report: Report) -> Report:
        """See ``Reevaluable``: evaluates the policy, the one before RL, and the joint student."""
        judged = load_policy(context.directory / report.artifacts["policy"], context.device)
        after = context.evaluate(judged, "after RL")
        reference = context.evaluate(
            load_policy(context.artifact("policy"), context.device), "before RL"
        )
        report.update_numbers({**after.report_numbers(), **reference.report_numbers("{}_before")})
        if "joint_student" in report.artifacts:
            head = load_policy(
                context.directory / report.artifacts["joint_student"], context.device
            )
            report.numbers |= context.evaluate(head, "one step").report_numbers("{}_one_step")
        report.gate = comparison_gate(
            "no worse than before", after, reference, self.cfg.margin, looks=report.looks
        )
        return report


def _head(run: Loop, context: Context) -> Report:
    """Return artifacts and curves of the joint student; empty without one."""
    found = Report("online")
    if run.joint_distillation is not None:
        head = run.joint_distillation.student
        found.artifacts["joint_student"] = save_policy(
            context.directory / "joint_student", head
        ).name
        found.curves["student"] = {"x": "env_steps", "y": "student_loss"}
    return found


def _whose(run: Loop) -> dict[str, int]:
    """Return the numbers of shards and processes of a run with several shards."""
    parts = run.parts.total
    return {"processes": rank_info().world_size, "parts": parts} if parts > 1 else {}
