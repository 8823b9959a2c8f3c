"""Action chunks and observation history over any ``VecEnv``.

This is the only module of training that handles chunks. Shapes: B envs, H actions of a chunk, E
executed ones (E ≤ H), A act_dim, To frames of observation history.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import torch
from torch import Tensor

from robo_rl.api.env import (
    REW_PART,
    Branchable,
    Groupable,
    OpenLoop,
    Step,
    VecEnv,
    can_branch,
    successes,
)
from robo_rl.core.errors import ConfigError, PluginError, SpecError
from robo_rl.env.env_check import demand_obs, demand_step, env_name
from robo_rl.env.transitions import where_rows

Obs = dict[str, Tensor]


class ChunkStep(NamedTuple):
    """The semi-Markov transition of one executed chunk.

    Bootstrap with ``rew + discount · (1 − terminated) · V(next_obs)``.

    Args:
        obs: Name → (B, To, …): the observation history to act on next.
        next_obs: Name → (B, To, …): the history at the true successor of the last executed action.
        rew: (B,) Σ_j γ^j r_j over the executed steps.
        terminated: (B,) bool, the task ended within the chunk.
        truncated: (B,) bool, the episode was cut within the chunk, a lost world included.
        lost: (B,) bool, the episode was cut because its world became non-finite or its process
            died. The outcome of such an episode is unknown.
        valid: (B,) bool, False where no step of the chunk took place.
        metrics: Name → (B,) float32: reward terms (``rew/…``) summed over the executed steps, and
            the maximum of every other metric; ``nan_worlds`` also counts the lost step.
        num_exec: (B,) int64, executed steps.
        discount: (B,) γ^num_exec.
        rew_sum: (B,) Σ_j r_j, the undiscounted increment of the episode's return.
    """

    obs: Obs
    next_obs: Obs
    rew: Tensor
    terminated: Tensor
    truncated: Tensor
    lost: Tensor
    valid: Tensor
    metrics: dict[str, Tensor]
    num_exec: Tensor
    discount: Tensor
    rew_sum: Tensor

    @property
    def success(self) -> Tensor:
        """Return whether any executed step succeeded, (B,) bool."""
        return successes(self.metrics, self.terminated)


@runtime_checkable
class Restable(Protocol):
    """An env whose members may pause, while the others step exactly as they would without it."""

    def rest(self, envs: Tensor) -> None:
        """Do not step envs (B,) bool until the next reset; their steps are invalid.

        Args:
            envs: Envs whose episode has ended. They stay at the first observation of the next.
        """
        ...


class ChunkEnv:
    """Executes the first ``exec_horizon`` actions of a chunk open loop.

    An env with ``rollout`` waits after the end of its episode. An env without it has begun a new
    episode by then, and the remaining actions of the chunk run into that episode. The transition
    drops these steps; the next history contains them.

    Args:
        env: The env of single steps.
        obs_horizon: To; an episode's first observation fills the history at its start.
        exec_horizon: E, number of actions executed of each chunk.
        gamma: Discount per env step.
    """

    def __init__(self, env: VecEnv, *, obs_horizon: int, exec_horizon: int, gamma: float) -> None:
        if obs_horizon < 1 or exec_horizon < 1 or not 0.0 <= gamma <= 1.0:
            found = f"obs_horizon {obs_horizon}, exec_horizon {exec_horizon}, gamma {gamma}"
            raise ConfigError(
                "chunk settings", expected="horizons ≥ 1, gamma in [0, 1]", found=found
            )
        self.env, self.obs_horizon, self.exec_horizon, self.gamma = (
            env,
            obs_horizon,
            exec_horizon,
            gamma,
        )
        self.num_envs, self.device = env.num_envs, env.device
        self.obs_spec, self.act_spec = env.obs_spec, env.act_spec
        self.dt_s, self.max_episode_steps = env.dt_s, env.max_episode_steps
        self._history: Obs = {}
        self._is_checked = False

    def reset(self, seed: int | None = None) -> Obs:
        """Start a new episode in every env; return name → (B, To, …)."""
        obs = self.env.reset(seed)
        demand_obs(self.env, obs, "reset()")
        self._history = {k: self._fill(v) for k, v in obs.items()}
        return self._history

    def reset_groups(self, size: int, seed: int) -> Obs:
        """Start a new episode in every env, one start state per group; see ``Groupable``.

        Raises:
            PluginError: The env does not support groups.
        """
        if not isinstance(self.env, Groupable):
            where = env_name(self.env, lambda each: isinstance(each, Groupable))
            raise PluginError("env has no reset_groups", where=where)
        self._history = {k: self._fill(v) for k, v in self.env.reset_groups(size, seed).items()}
        return self._history

    def step(self, act: Tensor) -> ChunkStep:
        """Execute the first E actions of act (B, H, A).

        Raises:
            SpecError: The chunk is shorter than ``exec_horizon``.
        """
        if act.ndim != 3 or act.shape[1] < self.exec_horizon:
            expected = f"(B, H ≥ {self.exec_horizon}, A)"
            raise SpecError("action chunk does not fit", expected=expected, found=tuple(act.shape))
        total, shown = _StepSums(self._history, self.num_envs, self.device), Obs()
        for step in self._steps(act[:, : self.exec_horizon]):
            if not self._is_checked:
                demand_step(self.env, step)
                self._is_checked = True
            successor = self._successor(step.next_obs, shown)
            total.add(step, successor, self.gamma)
            self._history = self._after(step, successor)
            shown = step.next_obs if isinstance(self.env, OpenLoop) else Obs()
        return total.result(self._history)

    def rest(self, envs: Tensor) -> None:
        """Let envs (B,) bool rest until the next reset, if the env can; see ``Restable``."""
        if isinstance(self.env, Restable):
            self.env.rest(envs)

    def snapshot(self) -> dict[str, Any]:
        """Return the state of the env and the observation history.

        Raises:
            PluginError: The env is not ``Branchable``.
        """
        history = {name: value.clone() for name, value in self._history.items()}
        return {"env": self._branchable().snapshot(), "history": history}

    def restore(self, snapshot: Mapping[str, Any]) -> Obs:
        """Restore a snapshot; return its observation history."""
        self._branchable().restore(snapshot["env"])
        self._history = {name: value.clone() for name, value in snapshot["history"].items()}
        return self._history

    def close(self) -> None:
        """Close the env."""
        self.env.close()

    def _steps(self, act: Tensor) -> Iterator[Step]:
        if isinstance(self.env, OpenLoop):
            yield from self.env.rollout(act, frames=self.obs_horizon)
        else:
            yield from (self.env.step(act_t) for act_t in act.unbind(1))

    def _successor(self, frames: Obs, shown: Obs) -> Obs:
        """Return the histories with new frames at their end.

        Images that nobody reads are not rendered within a chunk, and their tensor is repeated. A
        history of one such image stays as it is, without a copy.

        Args:
            frames: Name → (B, …).
            shown: The frames before, of the same open-loop sequence; empty for none.
        """
        one = self.obs_horizon == 1
        return {
            k: v if one and frames[k] is shown.get(k) else _push(v, frames[k])
            for k, v in self._history.items()
        }

    def _after(self, step: Step, successor: Obs) -> Obs:
        """Return the next history: the successor's, or the new episode's first frame."""
        if step.obs is step.next_obs:
            return successor
        ended, history = step.terminated | step.truncated, Obs()
        for name, old in self._history.items():
            going = _push(old, step.obs[name])
            history[name] = where_rows(ended, self._fill(step.obs[name]), going)
        return history

    def _fill(self, frame: Tensor) -> Tensor:
        return frame.unsqueeze(1).repeat_interleave(self.obs_horizon, dim=1)

    def _branchable(self) -> Branchable:
        if can_branch(self.env):
            return cast(Branchable, self.env)
        where = env_name(self.env, can_branch)
        raise PluginError("env has no snapshot and restore", where=where)


class _StepSums:
    """Running sums over the steps of one chunk."""

    def __init__(self, history: Obs, num_envs: int, device: torch.device) -> None:
        self.live = torch.ones(num_envs, dtype=torch.bool, device=device)
        self.terminated, self.truncated, self.lost = ~self.live, ~self.live, ~self.live
        self.num_exec = torch.zeros(num_envs, dtype=torch.int64, device=device)
        self.rew = torch.zeros(num_envs, device=device)
        self.rew_sum = torch.zeros(num_envs, device=device)
        self.discount = torch.ones(num_envs, device=device)
        self.next_obs, self.metrics = history, dict[str, Tensor]()

    def add(self, step: Step, successor: Obs, gamma: float) -> None:
        """Add a step, for envs that are still in the episode in which the chunk began."""
        valid = self.live & step.valid
        self.rew = self.rew + torch.where(valid, self.discount * step.rew, 0.0)
        self.rew_sum = self.rew_sum + torch.where(valid, step.rew, 0.0)
        self.discount = torch.where(valid, self.discount * gamma, self.discount)
        self.num_exec = self.num_exec + valid
        self.next_obs = {k: _where(valid, v, self.next_obs[k]) for k, v in successor.items()}
        for name, value in step.metrics.items():
            self._add_metric(name, value, valid)
        self.terminated = self.terminated | self.live & step.terminated
        self.truncated = self.truncated | self.live & step.truncated
        self.lost = self.lost | self.live & step.truncated & ~step.valid
        self.live = self.live & ~(step.terminated | step.truncated)

    def _add_metric(self, name: str, value: Tensor, valid: Tensor) -> None:
        old = self.metrics.get(name)
        if name.startswith(REW_PART):
            counted = torch.where(valid, value, 0.0)
            self.metrics[name] = counted if old is None else old + counted
        elif old is None:
            self.metrics[name] = value
        else:
            self.metrics[name] = torch.where(self.live, torch.maximum(old, value), old)

    def result(self, obs: Obs) -> ChunkStep:
        return ChunkStep(
            obs=obs,
            next_obs=self.next_obs,
            rew=self.rew,
            terminated=self.terminated,
            truncated=self.truncated,
            lost=self.lost,
            valid=self.num_exec > 0,
            metrics=self.metrics,
            num_exec=self.num_exec,
            discount=self.discount,
            rew_sum=self.rew_sum,
        )


def _where(mask: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """Return ``where_rows``, without a copy of one tensor twice."""
    return yes if yes is no else where_rows(mask, yes, no)


def _push(history: Tensor, frame: Tensor) -> Tensor:
    """Drop the oldest frame of (B, To, …), append (B, …)."""
    return torch.cat([history[:, 1:], frame.unsqueeze(1)], dim=1)
