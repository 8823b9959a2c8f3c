"""An env with observation and action delays, as on a robot.

Shapes: B envs, T control steps, A act_dim, D remembered steps.

Observations are delayed; reward, success and the end of an episode refer to the current state. A
policy fine-tuned in this env learns to act on old readings. The inference time of the policy is not
modelled: during deployment, ``sim2real`` skips the actions that are already past (``chunks``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, cast

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
from robo_rl.api.task import DeltaTask, Task
from robo_rl.config.component import Component, component
from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import PluginError
from robo_rl.env.env_check import env_name
from robo_rl.env.message_delay import MessageDelay, delayed_values, fill_history, push_history
from robo_rl.env.sent_changes import SentChanges
from robo_rl.env.transitions import where_rows

Obs = dict[str, Tensor]


class LatencyEnv:
    """Wraps an env with delayed messages; it is ``restorable`` if the wrapped env is.

    A delay that is no whole number of steps is interpolated linearly between two steps. The first
    observation and action of an episode also stand for all times before it.

    A delta action stands for the command that it leads to, as on a robot, whose node adds the
    changes up and sends commands: a lost message delays its change and does not lose it. Before
    the first action there is no change.

    Args:
        cfg: See Config.
        *parts: Arguments of the wrapped env: a task, where it runs tasks, and B.

    Raises:
        PluginError: The wrapped env is not ``OpenLoop``.
    """

    class Config(ConfigModel):
        """The wrapped env and its delays.

        Args:
            env: The wrapped env.
            obs_delay: Delay of observations.
            act_delay: Delay of actions.
        """

        env: Annotated[Component[VecEnv], component("envs")] = cast("Component[VecEnv]", "sim")
        obs_delay: MessageDelay.Config = MessageDelay.Config()
        act_delay: MessageDelay.Config = MessageDelay.Config()

    def __init__(self, cfg: Config, *parts: Any) -> None:
        self.cfg, self.env = cfg, cast(VecEnv, cfg.env.build(*parts))
        self.__wrapped__ = self.env
        if not isinstance(self.env, OpenLoop):
            self.env.close()
            hint = "set the delays of a simulator behind a server in the simulator itself"
            problem = f"env '{cfg.env.name}' has no rollout, which delays of messages need"
            raise PluginError(problem, where="env.env", hint=hint)
        self._rollout = self.env.rollout
        self.num_envs, self.device, self.dt_s = self.env.num_envs, self.env.device, self.env.dt_s
        self.obs_spec, self.act_spec = self.env.obs_spec, self.env.act_spec
        self.max_episode_steps = self.env.max_episode_steps
        size, dt_s, device = self.num_envs, self.dt_s, self.device
        self._out = MessageDelay(cfg.obs_delay, size, dt_s, device, "latency out")
        self._into = MessageDelay(cfg.act_delay, size, dt_s, device, "latency into")
        self._seen: Obs = {}
        self._acts = torch.zeros(size, self._into.depth, self.act_spec.size, device=device)
        self._changes = SentChanges(self.act_spec, size, device)
        self._idle = torch.ones(size, dtype=torch.bool, device=device)

    @property
    def restorable(self) -> bool:
        """Whether ``snapshot`` and ``restore`` work; see ``can_branch``."""
        return can_branch(self.env)

    @property
    def view(self) -> Any:
        """Return the current state without delay, for scripted demonstrators.

        Its ``ctrl`` is that of the last command sent, from which the next delta action counts.
        """
        view, task = cast(Any, self.env).view, self.task
        if not (self._changes.used and isinstance(task, DeltaTask)):
            return view
        under_way = self._changes.under_way(view.ctrl.dtype)
        return replace(view, ctrl=cast(Task, task).control(view, under_way).to(view.ctrl.dtype))

    @property
    def task(self) -> Any:
        """Return the object with the scripted demonstrator: the wrapped env, or its task."""
        return self.env if hasattr(self.env, "expert") else getattr(self.env, "task", None)

    def reset(self, seed: int | None = None) -> Obs:
        """Start a new episode in every env; None continues the random streams."""
        if seed is not None:
            self._seed(seed)
        return self._restart_all(self.env.reset(seed))

    def reset_groups(self, size: int, seed: int) -> Obs:
        """Start a new episode in every env, with one latency per group; see ``Groupable``."""
        able = _able(self.env, Groupable, "reset_groups")
        self._seed(seed)
        return self._restart_all(able.reset_groups(size, seed), copies=size)

    def step(self, act: Tensor) -> Step:
        """Apply act (B, A) for one control step."""
        return self.rollout(act.unsqueeze(1))[0]

    def rollout(self, act: Tensor, *, frames: int | None = None) -> list[Step]:
        """Apply act (B, T, A) open loop; see ``OpenLoop``."""
        read = None if frames is None else frames + self._out.depth - 1  # late ones are older
        late = torch.stack([self._sent(act_t.to(self.device)) for act_t in act.unbind(1)], dim=1)
        steps = self._rollout(late, frames=read)
        over = torch.stack([step.terminated | step.truncated for step in steps]).cummax(0).values
        waits = torch.cat([torch.zeros_like(over[:1]), over[:-1]])
        begins: list[bool] = (over & ~waits).any(dim=1).tolist()
        heard = zip(steps, waits, begins, strict=True)
        return [self._heard(step, resting, any_begins) for step, resting, any_begins in heard]

    def snapshot(self) -> dict[str, Any]:
        """Return the state of the wrapped env and of the messages under way."""
        return {
            "env": self._branchable().snapshot(),
            "out": self._out.snapshot(),
            "into": self._into.snapshot(),
            "seen": {name: value.clone() for name, value in self._seen.items()},
            "acts": self._acts.clone(),
            "changes": self._changes.snapshot(),
            "idle": self._idle.clone(),
        }

    def restore(self, snapshot: Mapping[str, Any]) -> Obs:
        """Restore a snapshot; return its observation."""
        self._branchable().restore(snapshot["env"])
        self._out.restore(snapshot["out"])
        self._into.restore(snapshot["into"])
        seen, acts, idle = (snapshot[name] for name in ("seen", "acts", "idle"))
        self._seen = {name: value.to(self.device, copy=True) for name, value in seen.items()}
        self._acts, self._idle = (each.to(self.device, copy=True) for each in (acts, idle))
        self._changes.restore(snapshot["changes"])
        return self._shown()

    @property
    def task_names(self) -> tuple[str, ...]:
        """See ``MultiTask``."""
        return task_names(self.env)

    def weigh_tasks(self, weights: Tensor) -> None:
        """See ``MultiTask``."""
        _able(self.env, MultiTask, "tasks").weigh_tasks(weights)

    def close(self) -> None:
        """Close the wrapped env."""
        self.env.close()

    def _branchable(self) -> Branchable:
        if not self.restorable:
            raise PluginError(
                "env has no snapshot and restore", where=env_name(self.env, can_branch)
            )
        return cast(Branchable, self.env)

    def _seed(self, seed: int) -> None:
        self._out.seed(seed)
        self._into.seed(seed)

    def _restart_all(self, obs: Obs, copies: int = 1) -> Obs:
        rows = torch.arange(self.num_envs, device=self.device)
        self._seen = {name: fill_history(value, self._out.depth) for name, value in obs.items()}
        self._restart(rows, copies)
        return self._shown()

    def _restart(self, rows: Tensor, copies: int = 1) -> None:
        self._out.restart(rows, copies)
        self._into.restart(rows, copies)
        self._changes.restart(rows)
        self._idle[rows] = True

    def _sent(self, act: Tensor) -> Tensor:
        """Return the action that takes effect when act (B, A) is commanded."""
        act, before = self._changes.send(act)
        first = push_history(fill_history(before, self._into.depth), act)
        self._acts = where_rows(self._idle, first, push_history(self._acts, act))
        self._idle = torch.zeros_like(self._idle)
        return self._changes.receive(delayed_values(self._acts, self._into.advance()))

    def _heard(self, step: Step, waits: Tensor, any_begins: bool) -> Step:
        """Return a step with delayed observations.

        Args:
            step: The step of the wrapped env.
            waits: (B,) envs whose episode has ended before; they receive no new messages.
            any_begins: Whether an env begins its next episode.
        """
        before = self._out.age
        self._out.age = torch.where(waits, before, self._out.advance())
        for name, value in self._seen.items():
            latest = push_history(value, step.next_obs[name])
            self._seen[name] = where_rows(waits, value, latest)
        next_obs = obs = self._shown()
        over = (step.terminated | step.truncated) & ~waits
        if any_begins:
            obs = self._begun(over.nonzero().squeeze(1), step.obs)
        return step._replace(obs=obs, next_obs=next_obs)

    def _begun(self, rows: Tensor, obs: Obs) -> Obs:
        """Begin new episodes in the envs rows (n,), at obs (B, …); return the observation."""
        for name, value in self._seen.items():
            value[rows] = fill_history(obs[name][rows], self._out.depth)
        self._restart(rows)
        return self._shown()

    def _shown(self) -> Obs:
        return {name: delayed_values(value, self._out.age) for name, value in self._seen.items()}


def _able(env: Any, kind: Any, what: str) -> Any:
    if not isinstance(env, kind):
        where = env_name(env, lambda each: isinstance(each, kind))
        raise PluginError(f"env has no {what}", where=where)
    return env
