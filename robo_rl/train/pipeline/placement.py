"""An env with its tensors on the device of the learners, whatever the device of its simulator.

All tensors of a step go to the GPU in one transfer. Snapshots stay on their device. Shapes: B envs,
T control steps, A act_dim.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor

from robo_rl.api.env import Branchable, Groupable, MultiTask, OpenLoop, Step, VecEnv, task_names
from robo_rl.env.device_transfer import to_host
from robo_rl.env.packed_transfer import sent

Obs = dict[str, Tensor]


def on_device(env: VecEnv, device: torch.device) -> VecEnv:
    """Return the env itself if it is on the device, else a wrapper that moves its tensors there."""
    if env.device == device:
        return env
    env = to_host(env)
    if device.type == "cpu":
        return env
    whole = all(isinstance(env, kind) for kind in (OpenLoop, Branchable, Groupable))
    return TransferSimEnv(env, device) if whole else TransferEnv(env, device)


class TransferEnv:
    """An env on the CPU with its tensors on another device.

    Args:
        env: The env on the CPU.
        device: Device of observations, rewards and flags.
    """

    def __init__(self, env: VecEnv, device: torch.device) -> None:
        self._env, self.device = env, device
        self.num_envs, self.dt_s = env.num_envs, env.dt_s
        self.obs_spec, self.act_spec = env.obs_spec, env.act_spec
        self.max_episode_steps = env.max_episode_steps

    def reset(self, seed: int | None = None) -> Obs:
        """See ``VecEnv``."""
        return sent(self._env.reset(seed), self.device)

    def step(self, act: Tensor) -> Step:
        """See ``VecEnv``."""
        return sent(self._env.step(act.cpu()), self.device)

    @property
    def task_names(self) -> tuple[str, ...]:
        """See ``MultiTask``."""
        return task_names(self._env)

    def weigh_tasks(self, weights: Tensor) -> None:
        """See ``MultiTask``."""
        cast(MultiTask, self._env).weigh_tasks(weights)

    def close(self) -> None:
        """See ``VecEnv``."""
        self._env.close()


class TransferSimEnv(TransferEnv):
    """A ``TransferEnv`` of an env that is ``Branchable``, ``Groupable`` and ``OpenLoop``."""

    @property
    def task(self) -> Any:
        """The task of the env."""
        return getattr(self._env, "task", None)

    @property
    def view(self) -> Any:
        """The view of the env, on the CPU."""
        return cast(Any, self._env).view

    def rollout(self, act: Tensor, *, frames: int | None = None) -> list[Step]:
        """See ``OpenLoop``."""
        return sent(cast(OpenLoop, self._env).rollout(act.cpu(), frames=frames), self.device)

    def snapshot(self) -> dict[str, Any]:
        """See ``Branchable``."""
        return cast(Branchable, self._env).snapshot()

    def restore(self, snapshot: Mapping[str, Any]) -> Obs:
        """See ``Branchable``."""
        return sent(cast(Branchable, self._env).restore(snapshot), self.device)

    def reset_groups(self, size: int, seed: int) -> Obs:
        """See ``Groupable``."""
        return sent(cast(Groupable, self._env).reset_groups(size, seed), self.device)
