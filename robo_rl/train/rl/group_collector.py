"""Collects whole episodes in groups that share a start state.

Shapes: T decisions, B envs, G episodes of a group.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from robo_rl.api.env import REW_PART, check_groups
from robo_rl.core.seeding import derive
from robo_rl.data.rollout import Rollout
from robo_rl.env.chunk_env import ChunkEnv, ChunkStep
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.rl.collector import Collector, Sums


class GroupCollector(Collector):
    """A ``Collector`` whose rollouts hold one episode per env.

    Envs i·G … i·G+G−1 share a start state. A rollout lasts until its last episode has ended. Envs
    with a finished episode rest if they are ``Restable``, and else are stepped. Their decisions are
    not valid, and their steps do not count in ``env_steps``.

    Args:
        env: The env to step.
        generator: Source of the policy's noise.
        single_step: See ``Collector``.
        group_size: G.
        by_failures: See ``Collector``.

    Raises:
        ConfigError: The envs do not make whole groups.
    """

    def __init__(
        self,
        env: ChunkEnv,
        generator: torch.Generator,
        *,
        single_step: bool,
        group_size: int,
        by_failures: bool = False,
    ) -> None:
        check_groups(group_size, env.num_envs)
        super().__init__(env, generator, single_step=single_step, by_failures=by_failures)
        self.group_size, self.blocks = group_size, 0
        self._begin_count()

    def start(self, seed: int) -> None:
        """Set the seed from which the start states of all rollouts are derived."""
        self.seed = seed

    def collect(self, policy: DenoisingPolicy, decisions: int) -> tuple[Rollout, dict[str, float]]:
        """Collect one whole episode in every env and ignore ``decisions``; see ``Collector``."""
        del decisions
        self.start_at(self.env.reset_groups(self.group_size, self._next_seed()))
        self._begin_count()
        rollout, stats = super().collect(policy, self.max_decisions)
        self.cohorts.start_block[:] = self.cohorts.block + 1  # no episode is running
        stats["invalid_decisions"] -= self._idle.pop()["decisions"]
        return rollout, stats

    @property
    def max_decisions(self) -> int:
        """Decisions of the longest episode, and so of a rollout."""
        return math.ceil(self.env.max_episode_steps / self.env.exec_horizon)

    def _next_seed(self) -> int:
        self.blocks += 1
        return derive("groups", self.seed, self.blocks)

    def _begin_count(self) -> None:
        self._alive = torch.ones(self.env.num_envs, dtype=torch.bool, device=self.env.device)
        self._idle = Sums()

    def _counted(self, step: ChunkStep) -> ChunkStep:
        """Mask the step of envs that have finished their first episode.

        A decision that lost its world is not valid, because its rewards before the loss are
        unreliable.
        """
        alive = self._alive
        self._idle.add({"decisions": (~alive).sum()})
        self._alive = alive & ~(step.terminated | step.truncated)
        self.env.rest(~self._alive)
        return step._replace(
            rew=torch.where(alive, step.rew, 0.0),
            rew_sum=torch.where(alive, step.rew_sum, 0.0),
            terminated=step.terminated & alive,
            truncated=step.truncated & alive,
            valid=step.valid & alive & ~step.lost,
            num_exec=step.num_exec * alive,
            metrics={
                name: torch.where(alive, value, 0.0) if name.startswith(REW_PART) else value
                for name, value in step.metrics.items()
            },
        )

    def _enough(self) -> bool:
        return not bool(self._alive.any())

    def state_dict(self) -> dict[str, Any]:
        """Return the state between rollouts, where no env is in the middle of an episode."""
        return {
            "generator": self.generator.get_state(),
            "env_steps": self.env_steps,
            "cohorts": self.cohorts.state_dict(),
            "seed": self.seed,
            "blocks": self.blocks,
            **({} if self.tasks is None else {"tasks": self.tasks.state_dict()}),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state_dict``."""
        self.generator.set_state(state["generator"])
        self.cohorts.load_state_dict(state["cohorts"])
        if self.tasks is not None:
            self.tasks.load_state_dict(state["tasks"])
        self.env_steps, self.seed, self.blocks = state["env_steps"], state["seed"], state["blocks"]
