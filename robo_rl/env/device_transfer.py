"""An env whose simulator computes on another device, as those see it that learn on the processor.

Policies, critics and buffers are on the processor; a simulator may be on a GPU. What an env says is
brought over here, and only here; an action is brought to the simulator by the env itself. What the
state is made of stays where it is: checkpoints know tensors from everywhere.

Shapes: B envs, T control steps, A act_dim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, cast

import torch
from torch import Tensor

from robo_rl.api.env import Branchable, Groupable, OpenLoop, SimView, Step, VecEnv

HOST = torch.device("cpu")

Obs = dict[str, Tensor]


def to_host(env: VecEnv) -> VecEnv:
    """The env itself if it is on the processor, else one that brings over what it says."""
    if env.device.type == HOST.type:
        return env
    whole = all(isinstance(env, kind) for kind in (OpenLoop, Branchable, Groupable))
    return HostSimEnv(env) if whole else HostEnv(env)


class HostEnv:
    """Another env, its tensors on the processor.

    Args:
        env: Which.
    """

    device = HOST

    def __init__(self, env: VecEnv) -> None:
        self._env = env
        self.num_envs, self.dt_s = env.num_envs, env.dt_s
        self.obs_spec, self.act_spec = env.obs_spec, env.act_spec
        self.max_episode_steps = env.max_episode_steps

    @property
    def task(self) -> Any:
        """Who brings the scripted expert: the env within, or its task."""
        return self._env if hasattr(self._env, "expert") else getattr(self._env, "task", None)

    def reset(self, seed: int | None = None) -> Obs:
        """See ``VecEnv``."""
        return _brought(self._env.reset(seed))

    def step(self, act: Tensor) -> Step:
        """See ``VecEnv``."""
        return _step(self._env.step(act.to(self._env.device)))

    def close(self) -> None:
        """See ``VecEnv``."""
        self._env.close()


class HostSimEnv(HostEnv):
    """Likewise, of an env that can be branched, grouped and run open loop."""

    @property
    def view(self) -> SimView:
        """The world as it is, for scripted experts."""
        view: SimView = cast(Any, self._env).view
        found = {each.name: getattr(view, each.name) for each in fields(view)}
        return replace(view, **{name: _brought(value) for name, value in found.items()})

    def rollout(self, act: Tensor) -> list[Step]:
        """See ``OpenLoop``."""
        steps = cast(OpenLoop, self._env).rollout(act.to(self._env.device))
        return [_step(step) for step in steps]

    def snapshot(self) -> dict[str, Any]:
        """See ``Branchable``."""
        return cast(Branchable, self._env).snapshot()

    def restore(self, snapshot: Mapping[str, Any]) -> Obs:
        """See ``Branchable``."""
        return _brought(cast(Branchable, self._env).restore(snapshot))

    def reset_groups(self, size: int, seed: int) -> Obs:
        """See ``Groupable``."""
        return _brought(cast(Groupable, self._env).reset_groups(size, seed))


def _step(step: Step) -> Step:
    """Brought over; one observation handed out as both is brought once, and stays one."""
    obs = _brought(step.obs)
    successor = obs if step.next_obs is step.obs else _brought(step.next_obs)
    rest = (_brought(each) for each in step[2:])
    return Step(obs, successor, *rest)


def _brought(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.to(HOST)
    if isinstance(value, Mapping):
        return {name: _brought(each) for name, each in cast(Mapping[str, Any], value).items()}
    return value
