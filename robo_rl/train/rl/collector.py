"""Collects rollouts with an exploring policy.

Shapes: T decisions, B envs, K denoising steps, H horizon, A act_dim.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor

from robo_rl.api.env import REW_PART, TASK, can_branch
from robo_rl.core.seeding import derive
from robo_rl.data.rollout import Rollout, RolloutBuilder, executed_mask
from robo_rl.env.chunk_env import ChunkEnv, ChunkStep
from robo_rl.optim.scalars import numbers
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.chain import Chain, PreviousNoise
from robo_rl.policy.correlation import zero_previous_noise
from robo_rl.train.rl.action_jerk import Jerk
from robo_rl.train.rl.episode_cohorts import Cohorts, EpisodeOutcomes
from robo_rl.train.rl.task_sampler import TaskSampler


class Collector:
    """Steps a policy through an env, records rollouts and counts episodes.

    Args:
        env: The env to step.
        generator: Source of the policy's noise.
        single_step: Whether each chain has one stochastic step (see ``draw_chain``).
        by_failures: Whether new episodes favour the tasks that fail (see ``TaskSampler``).

    Attributes:
        restarted: Whether ``load_state_dict`` began new episodes instead of the interrupted ones.
    """

    def __init__(
        self,
        env: ChunkEnv,
        generator: torch.Generator,
        *,
        single_step: bool,
        by_failures: bool = False,
    ) -> None:
        self.env, self.generator, self.single_step = env, generator, single_step
        self.env_steps = self.seed = 0
        self.obs: dict[str, Tensor] = {}
        self.restarted = False
        self.succeeded = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
        self.previous_noise: PreviousNoise | None = None
        self.jerk = Jerk(env.act_spec, env.dt_s, env.num_envs, env.device)
        self.tasks = TaskSampler.of(env.env, by_failures)
        balanced = len(self.tasks.names) if by_failures and self.tasks is not None else 1
        self.cohorts = Cohorts(env.num_envs, env.device, balanced_tasks=balanced)

    def start(self, seed: int) -> None:
        """Start new episodes in all envs."""
        self.seed = seed
        self.start_at(self.env.reset(seed))

    def start_at(self, obs: dict[str, Tensor]) -> None:
        """Continue from the first observations of new episodes in all envs."""
        self.obs, self.previous_noise = obs, None
        self.succeeded.zero_()
        self.cohorts.restart()
        self.jerk.reset()

    @torch.no_grad()
    def collect(self, policy: DenoisingPolicy, decisions: int) -> tuple[Rollout, dict[str, float]]:
        """Collect T decisions in every env.

        Returns:
            The rollout and its metrics. ``rew_per_step`` and its parts ``rew/…`` are means per env
            step. ``jerk`` is that of the executed actions (see ``Jerk``). ``invalid_decisions``
            counts decisions that training ignores. ``lost_…`` counts decisions in which an env
            reports that it left something out. Where there are several tasks, ``episodes/<task>``
            and ``successes/<task>`` count those that ended. ``cohorts`` reports the episodes.
        """
        builder, counts, earned = RolloutBuilder(), Sums(), Sums()
        self.previous_noise = self._past(policy)
        carried = None if self.previous_noise is None else self.previous_noise.noise
        for _ in range(decisions):
            past = self.previous_noise
            chain = policy.sample(self.obs, self.generator, single_step=self.single_step, past=past)
            act = policy.to_env(self.obs, chain.act)
            step = self._counted(self.env.step(act))
            builder.add(self.obs, step.next_obs, _columns(chain, step, past))
            self.succeeded |= step.success
            over = step.terminated | step.truncated
            task = step.metrics.get(TASK)
            self.cohorts.record_step(step.rew_sum, self.succeeded, over, step.lost, task)
            if self.tasks is not None:
                self.tasks.record(step, self.succeeded, over)
            self.succeeded &= ~over
            self.jerk.update(act[:, : self.env.exec_horizon], step.num_exec, over)
            self.previous_noise = None if past is None else chain.as_previous(~over)
            counts.add(_troubles(step))
            earned.add(_earned(step))
            self.obs = step.obs
            if self._enough():
                break
        rollout = builder.finish(self.obs, carried)
        steps = int(rollout.num_exec.sum())
        self.env_steps += steps
        means = {name: total / max(steps, 1) for name, total in earned.pop().items()}
        by_task = self.tasks.finish_block() if self.tasks is not None else {}
        return rollout, {**means, **counts.pop(), **by_task, "jerk": self.jerk.pop_mean()}

    def finish_block(self) -> EpisodeOutcomes:
        """Close the block of episodes; see ``Cohorts.finish_block``."""
        return self.cohorts.finish_block()

    def discard_running(self) -> None:
        """Count only episodes that begin from now on; see ``Cohorts.discard_running``."""
        self.cohorts.discard_running()

    def close(self) -> None:
        """Close the env."""
        self.env.close()

    def _counted(self, step: ChunkStep) -> ChunkStep:
        """Return the part of a step that belongs to the rollout: all of it."""
        return step

    def _enough(self) -> bool:
        """Return whether the rollout may end before it has all its decisions."""
        return False

    def _past(self, policy: DenoisingPolicy) -> PreviousNoise | None:
        """Return the previous decision's noise; None without correlated exploration."""
        if not policy.correlation.enabled:
            return None
        size = policy.num_steps, policy.horizon, policy.act_spec.size
        return self.previous_noise or zero_previous_noise(self.env.num_envs, *size, self.env.device)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the env, the policy noise and the counters."""
        return {
            "env": self.env.snapshot() if can_branch(self.env.env) else None,
            "generator": self.generator.get_state(),
            "env_steps": self.env_steps,
            "seed": self.seed,
            "succeeded": self.succeeded,
            "cohorts": self.cohorts.state_dict(),
            "past": None if self.previous_noise is None else self.previous_noise._asdict(),
            "jerk": self.jerk.state_dict(),
            **({} if self.tasks is None else {"tasks": self.tasks.state_dict()}),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state_dict``; an env that is not ``Branchable`` starts new episodes.

        The seed of these episodes is derived from the first seed and the number of env steps.
        """
        self.generator.set_state(state["generator"])
        self.env_steps, self.seed = state["env_steps"], state["seed"]
        self.succeeded = state["succeeded"].to(self.env.device)
        self.cohorts.load_state_dict(state["cohorts"])
        if self.tasks is not None:
            self.tasks.load_state_dict(state["tasks"])
        self.restarted = state["env"] is None
        if self.restarted:
            self.start(derive("continue", self.seed, self.env_steps))
        else:
            history = state["env"]["history"].items()
            here = {name: seen.to(self.env.device) for name, seen in history}
            self.obs = self.env.restore({**state["env"], "history": here})
            past = state["past"] or {}
            noise = {name: tensor.to(self.env.device) for name, tensor in past.items()}
            self.previous_noise = PreviousNoise(**noise) if noise else None
            self.jerk.load_state_dict(state["jerk"])


class Sums:
    """Sums of scalars by name, which are brought to the host together."""

    def __init__(self) -> None:
        self._seen: defaultdict[str, list[Tensor]] = defaultdict(list)

    def add(self, scalars: dict[str, Tensor]) -> None:
        """Take in some."""
        for name, scalar in scalars.items():
            self._seen[name].append(scalar)

    def pop(self) -> dict[str, float]:
        """The sums since they were last taken."""
        seen, self._seen = self._seen, defaultdict(list)
        values = iter(numbers([scalar for scalars in seen.values() for scalar in scalars]))
        return {name: sum(next(values) for _ in scalars) for name, scalars in seen.items()}


def _earned(step: ChunkStep) -> dict[str, Tensor]:
    """Return the reward summed over envs, and its parts."""
    parts = {name: value for name, value in step.metrics.items() if name.startswith(REW_PART)}
    return {name: x.sum() for name, x in {"rew_per_step": step.rew_sum, **parts}.items()}


def _troubles(step: ChunkStep) -> dict[str, Tensor]:
    """Return the number of envs with invalid decisions and with each kind of loss."""
    lost = {name: value for name, value in step.metrics.items() if name.startswith("lost_")}
    counts = {"invalid_decisions": ~step.valid, **{name: value > 0 for name, value in lost.items()}}
    return {name: count.sum() for name, count in counts.items()}


def _columns(chain: Chain, step: ChunkStep, past: PreviousNoise | None) -> dict[str, Tensor]:
    mask = executed_mask(step.num_exec, chain.x.shape[2])[:, None]
    columns = {
        "x": chain.x,
        "log_prob": (chain.log_prob * mask).sum(dim=(2, 3)),
        "rew": step.rew,
        "terminated": step.terminated,
        "truncated": step.truncated,
        "valid": step.valid,
        "discount": step.discount,
        "num_exec": step.num_exec,
    }
    optional = {"k_star": chain.k_star, "follows": None if past is None else past.continues}
    return columns | {name: column for name, column in optional.items() if column is not None}
