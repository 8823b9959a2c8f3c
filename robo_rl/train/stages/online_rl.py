"""Stage ``online``: reinforcement learning of the policy in a parallel env."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from robo_rl.api.env import check_groups
from robo_rl.config.registry import Component
from robo_rl.distributed.process_group import here
from robo_rl.train.checkpoint.policies import demand_decode, load_policy, save_policy
from robo_rl.train.evaluation.evaluate import EvalProtocol
from robo_rl.train.evaluation.gate import beside, too_few
from robo_rl.train.pipeline.multi_process import placed
from robo_rl.train.pipeline.policy_preflight import rehearse
from robo_rl.train.pipeline.stage import Context, Report
from robo_rl.train.rl.exploration import changed, exploring
from robo_rl.train.rl.joint_distillation import WHY
from robo_rl.train.rl.loop import Loop
from robo_rl.train.rl.loop_config import LoopConfig
from robo_rl.train.stages.video import record_video


class FineTune:
    """Fine-tunes the newest policy until its budget is spent or training success is enough.

    It leaves a ``head`` where a student learns along.

    Args:
        cfg: See Config.
    """

    class Config(LoopConfig):
        """See ``LoopConfig``; ``margin``: how much worse than before RL the result may be."""

        margin: float = Field(default=0.03, gt=0.0, lt=1.0)

    needs: ClassVar = ("policy",)
    makes: ClassVar = ("policy", "teacher", "head")

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg

    @staticmethod
    def leaves(cfg: Config, policy: Component | None, own: Component) -> Component | None:
        """See ``Leaving``."""
        del own
        return policy and (changed(policy, cfg.explore) or policy)

    @staticmethod
    def check(cfg: Config, policy: Component) -> None:
        """See ``Checked``."""
        acting = changed(policy, cfg.explore) or policy
        rehearse(cfg.algo, acting)
        if cfg.student.steps:
            demand_decode(acting.cfg, WHY)
        size = getattr(cfg.algo.cfg, "group_size", 1)
        if cfg.num_envs != "auto":
            check_groups(size, cfg.num_envs)

    @staticmethod
    def doubt(cfg: Config, protocol: EvalProtocol) -> str | None:
        """See ``Foretelling``."""
        return too_few(protocol, cfg.margin)

    def assist(self, context: Context) -> Loop:
        """Train what is left to train, together with the processes that do the same."""
        policy = load_policy(context.artifact("policy"))
        with placed():
            run = Loop(self.cfg, context, exploring(policy, self.cfg.explore, context.seed))
            run.train()
        return run

    def run(self, context: Context) -> Report:
        """Train what is left to train, evaluate, and keep the policy."""
        run = self.assist(context)
        path = save_policy(context.directory / "policy", run.judged)
        head = _head(run, context)
        report = Report(
            "online",
            numbers={
                "env_steps": run.collector.env_steps,
                "updates": run.algo.updates,
                "rollbacks": run.guard.rollbacks,
                "ended_with": run.ended_with,
                **_whose(run),
            },
            artifacts={"policy": path.name, "teacher": path.name, **head.artifacts},
            files=record_video(context, run.judged, "rollout.mp4"),
            curves={
                "success": {"x": "env_steps", "y": "success"},
                "return": {"x": "env_steps", "y": "rew_per_step"},
                "kl": {"x": "env_steps", "y": "kl"},
                **head.curves,
            },
        )
        return self.evaluate(context, report)

    def evaluate(self, context: Context, report: Report) -> Report:
        """See ``Evaluated``: the policy beside the one before RL, and the head if there is one."""
        judged = load_policy(context.directory / report.artifacts["policy"])
        after = context.evaluate(judged, "after RL")
        reference = context.evaluate(load_policy(context.artifact("policy")), "before RL")
        report.put({**after.named(), **reference.named("{}_before")})
        if "head" in report.artifacts:
            head = load_policy(context.directory / report.artifacts["head"])
            report.numbers |= context.evaluate(head, "one step").named("{}_one_step")
        report.gate = beside("no worse than before", after, reference, self.cfg.margin)
        return report


def _head(run: Loop, context: Context) -> Report:
    """What there is to show of the student that learnt along: nothing where there was none."""
    found = Report("online")
    if run.apprentice is not None:
        head = run.apprentice.head
        found.artifacts["head"] = save_policy(context.directory / "head", head).name
        found.curves["student"] = {"x": "env_steps", "y": "student_loss"}
    return found


def _whose(run: Loop) -> dict[str, int]:
    """Of a run in several parts: how many, and of how many processes."""
    parts = run.parts.total
    return {"processes": here().size, "parts": parts} if parts > 1 else {}
