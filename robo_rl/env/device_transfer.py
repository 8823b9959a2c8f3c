"""An env with its tensors on the device of the learners, whatever the device of its simulator.

All tensors of a step move in one transfer. Snapshots stay on their device, because checkpoints
accept tensors of any device. Shapes: B envs, T control steps, A act_dim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor

from robo_rl.api.env import (
    Branchable,
    Groupable,
    MultiTask,
    OpenLoop,
    Step,
    VecEnv,
    can_branch,
    task_names,
)
from robo_rl.env.chunk_env import Restable
from robo_rl.env.packed_transfer import sent

HOST = torch.device("cpu")

Obs = dict[str, Tensor]


def on_device(env: VecEnv, device: torch.device) -> VecEnv:
    """Return the env itself if it is on the device, else a wrapper that moves its tensors there.

    The wrapper has the optional methods of the env, and no others: ``rollout``, ``snapshot`` and
    ``restore``, ``reset_groups``, ``rest``, ``view``. Between two GPUs tensors go through the CPU.
    """
    if env.device == device:
        return env
    if HOST not in (env.device, device):
        env = on_device(env, HOST)
    has = {
        _OpenLoop: isinstance(env, OpenLoop),
        _Branchable: can_branch(env),
        _Groupable: isinstance(env, Groupable),
        _Restable: isinstance(env, Restable),
        _Viewed: "view" in dir(env),  # it may not be readable before the first reset
    }
    return _class_of(tuple(part for part, is_there in has.items() if is_there))(env, device)


class MovedEnv:
    """Wraps an env; actions go to its device, and its results to another one.

    Args:
        env: The wrapped env.
        device: Device of observations, rewards and flags.
    """

    def __init__(self, env: VecEnv, device: torch.device) -> None:
        self._env = self.__wrapped__ = env
        self.device = device
        self.num_envs, self.dt_s = env.num_envs, env.dt_s
        self.obs_spec, self.act_spec = env.obs_spec, env.act_spec
        self.max_episode_steps = env.max_episode_steps

    @property
    def task(self) -> Any:
        """Return the object with the scripted demonstrator: the env, or its task."""
        return self._env if hasattr(self._env, "expert") else getattr(self._env, "task", None)

    def reset(self, seed: int | None = None) -> Obs:
        """Start a new episode in every env; see ``VecEnv``."""
        return sent(self._env.reset(seed), self.device)

    def step(self, act: Tensor) -> Step:
        """Apply act (B, A) for one control step; see ``VecEnv``."""
        return sent(self._env.step(act.to(self._env.device)), self.device)

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


class _OpenLoop(MovedEnv):
    def rollout(self, act: Tensor, *, frames: int | None = None) -> list[Step]:
        """Apply act (B, T, A) open loop; see ``OpenLoop``."""
        steps = cast(OpenLoop, self._env).rollout(act.to(self._env.device), frames=frames)
        return sent(steps, self.device)


class _Branchable(MovedEnv):
    def snapshot(self) -> dict[str, Any]:
        """Return the state on the simulator's device; see ``Branchable``."""
        return cast(Branchable, self._env).snapshot()

    def restore(self, snapshot: Mapping[str, Any]) -> Obs:
        """Restore a snapshot; see ``Branchable``."""
        return sent(cast(Branchable, self._env).restore(snapshot), self.device)


class _Groupable(MovedEnv):
    def reset_groups(self, size: int, seed: int) -> Obs:
        """Start one episode per env, alike within groups; see ``Groupable``."""
        return sent(cast(Groupable, self._env).reset_groups(size, seed), self.device)


class _Restable(MovedEnv):
    def rest(self, envs: Tensor) -> None:
        """Let envs (B,) bool rest until the next reset; see ``Restable``."""
        cast(Restable, self._env).rest(envs.to(self._env.device))


class _Viewed(MovedEnv):
    @property
    def view(self) -> Any:
        """Return the current state on the CPU, for scripted demonstrators."""
        view = cast(Any, self._env).view
        if not is_dataclass(view):
            return sent(view, HOST)
        found = {each.name: getattr(view, each.name) for each in fields(view)}
        return replace(cast(Any, view), **sent(found, HOST))


@cache
def _class_of(parts: tuple[type[MovedEnv], ...]) -> type[MovedEnv]:
    """Return the class with these optional methods."""
    return type("MovedEnv", (*parts, MovedEnv), {"__doc__": MovedEnv.__doc__})
