"""Evaluates a policy during training, without exploration noise."""

from __future__ import annotations

from pydantic import Field

from robo_rl.config.models import ConfigModel
from robo_rl.core.seeding import derive
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.evaluation.evaluate import EvalProtocol
from robo_rl.train.pipeline.stage import Context


class PeriodicEval:
    """Evaluates every ``every`` updates; the result does not influence training.

    Training episodes include exploration noise, which differs between methods. The start states
    differ from those of training and of the stage's own evaluation. Each evaluation draws new start
    states and uses none of the training's random streams.

    Args:
        cfg: See ``Config``.
        context: Context of the stage.
    """

    class Config(ConfigModel):
        """Interval and size of the evaluations during training."""

        every: int = Field(default=0, ge=0)
        """Updates between two evaluations; 0 makes none."""
        episodes: int = Field(default=100, ge=1)
        """Episodes of an evaluation."""

    def __init__(self, cfg: Config, context: Context) -> None:
        self._cfg, self._context = cfg, context

    def run(self, updates: int, policy: DenoisingPolicy, *, last: bool) -> dict[str, float]:
        """Return ``eval/episodes``, ``eval/success``, ``eval/return``; empty if none is due.

        Args:
            updates: Number of updates so far.
            policy: Policy to evaluate.
            last: Whether training ends here; then an evaluation is always due.
        """
        if not self._cfg.every or (updates % self._cfg.every and not last):
            return {}
        protocol = probe_protocol(self._context, self._cfg.episodes, updates)
        found = self._context.evaluate(policy, f"update {updates}", protocol)
        return {
            "eval/episodes": float(len(found.success)),
            "eval/success": found.rate,
            "eval/return": found.mean_return,
        }


def probe_protocol(context: Context, episodes: int, mark: int | str) -> EvalProtocol:
    """Return a protocol with start states that neither training nor the stage's evaluation uses.

    Args:
        context: Context of the stage.
        episodes: Number of episodes.
        mark: Each mark has start states of its own.
    """
    num_envs = min(episodes, context.experiment.eval.num_envs)
    seed = derive("probe", context.seed, mark)
    return EvalProtocol(episodes=episodes, seed=seed, num_envs=num_envs)
