"""Transfers the results of an env from the simulator's device to the CPU.

Policies, critics and buffers are on the CPU; a simulator may be on a GPU. Only this module moves
observations and rewards to the CPU; the env itself moves actions to its device. Snapshots stay on
their device, because checkpoints accept tensors of any device.

Shapes: B envs, T control steps, A act_dim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, cast

import torch
from torch import Tensor

from robo_rl.api.env import (
    Branchable,
    Groupable,
    MultiTask,
    OpenLoop,
    SimView,
    Step,
    VecEnv,
    task_names,
)
from robo_rl.env.packed_transfer import sent

HOST = torch.device("cpu")

Obs = dict[str, Tensor]


def to_host(env: VecEnv) -> VecEnv:
    """Return the env itself if it is on the CPU, else a wrapper that moves its results there."""
    if env.device.type == HOST.type:
        return env
    whole = all(isinstance(env, kind) for kind in (OpenLoop, Branchable, Groupable))
    return HostSimEnv(env) if whole else HostEnv(env)


class HostEnv:
    """Wraps an env; its results are tensors on the CPU.

    Args:
        env: The wrapped env.
    """

    device = HOST

    def __init__(self, env: VecEnv) -> None:
        self._env = env
        self.num_envs, self.dt_s = env.num_envs, env.dt_s
        self.obs_spec, self.act_spec = env.obs_spec, env.act_spec
        self.max_episode_steps = env.max_episode_steps

    @property
    def task(self) -> Any:
        """Return the object with the scripted demonstrator: the env, or its task."""
        return self._env if hasattr(self._env, "expert") else getattr(self._env, "task", None)

    def reset(self, seed: int | None = None) -> Obs:
        """Start a new episode in every env; see ``VecEnv``."""
        return sent(self._env.reset(seed), HOST)

    def step(self, act: Tensor) -> Step:
        """Apply act (B, A) for one control step; see ``VecEnv``."""
        return sent(self._env.step(act.to(self._env.device)), HOST)

    @property
    def task_names(self) -> tuple[str, ...]:
        """See ``MultiTask``."""
        return task_names(self._env)

    def weigh_tasks(self, weights: Tensor) -> None:
        """See ``MultiTask``."""
        cast(MultiTask, self._env).weigh_tasks(weights)

    def close(self) -> None:
        """Release the resources; see ``VecEnv``."""
        self._env.close()


class HostSimEnv(HostEnv):
    """Wraps an env that is also ``Branchable``, ``Groupable`` and ``OpenLoop``."""

    @property
    def view(self) -> SimView:
        """Return the current state on the CPU, for scripted demonstrators."""
        view: SimView = cast(Any, self._env).view
        found = {each.name: getattr(view, each.name) for each in fields(view)}
        return replace(view, **sent(found, HOST))

    def rollout(self, act: Tensor, *, frames: int | None = None) -> list[Step]:
        """Apply act (B, T, A) open loop; see ``OpenLoop``."""
        steps = cast(OpenLoop, self._env).rollout(act.to(self._env.device), frames=frames)
        return sent(steps, HOST)

    def snapshot(self) -> dict[str, Any]:
        """Return the state on the simulator's device; see ``Branchable``."""
        return cast(Branchable, self._env).snapshot()

    def restore(self, snapshot: Mapping[str, Any]) -> Obs:
        """Restore a snapshot; see ``Branchable``."""
        return sent(cast(Branchable, self._env).restore(snapshot), HOST)

    def reset_groups(self, size: int, seed: int) -> Obs:
        """Start one episode per env, alike within groups; see ``Groupable``."""
        return sent(cast(Groupable, self._env).reset_groups(size, seed), HOST)
