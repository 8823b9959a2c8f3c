"""Looks at a policy on the way of its training, without the noise that it explores with."""

from __future__ import annotations

from pydantic import Field

from robo_rl.config.models import ConfigModel
from robo_rl.core.seeding import derive
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.evaluation.evaluate import EvalProtocol
from robo_rl.train.pipeline.stage import Context


class PeriodicEval:
    """Evaluates every so many updates; nothing is decided by it.

    Training episodes show a policy under its exploration, which differs from method to method.
    Start states are others than those of training and of the stage's own evaluation, drawn anew for
    every look, and no noise of training is used up.

    Args:
        cfg: See Config.
        context: Of the stage.
    """

    class Config(ConfigModel):
        """Updates between two looks, 0 for none; episodes of a look."""

        every: int = Field(default=0, ge=0)
        """Updates between two evaluations; 0 makes none."""
        episodes: int = Field(default=100, ge=1)
        """Episodes of an evaluation."""

    def __init__(self, cfg: Config, context: Context) -> None:
        self._cfg, self._context = cfg, context

    def run(self, updates: int, policy: DenoisingPolicy, *, last: bool) -> dict[str, float]:
        """``clean_episodes``, ``clean_success`` and ``clean_return``; empty if none is due.

        Args:
            updates: Made so far.
            policy: To look at.
            last: Whether training ends here, where a look is always due.
        """
        if not self._cfg.every or (updates % self._cfg.every and not last):
            return {}
        found = self._context.evaluate(policy, f"update {updates}", self._protocol(updates))
        return {
            "eval/episodes": float(len(found.success)),
            "eval/success": found.rate,
            "eval/return": found.mean_return,
        }

    def _protocol(self, updates: int) -> EvalProtocol:
        num_envs = min(self._cfg.episodes, self._context.experiment.eval.num_envs)
        seed = derive("probe", self._context.seed, updates)
        return EvalProtocol(episodes=self._cfg.episodes, seed=seed, num_envs=num_envs)
