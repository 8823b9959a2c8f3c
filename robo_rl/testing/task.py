"""Conformance suite for ``Task``, with its demonstrator if it has one.

Shapes: B envs, n starts, A act_dim. Each property is checked in the simulator that training uses.
A plugin's test calls it::

    def test_my_task_conforms():
        check_task(lambda: PegInsert(PegInsert.Config()))
"""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from robo_rl.api.env import SimView
from robo_rl.api.task import DeltaTask, Demonstrable, Demonstration, Expert, Reset, Task
from robo_rl.core.errors import PluginError
from robo_rl.core.seeding import make_generator
from robo_rl.env.mujoco.sim_env import SimEnv
from robo_rl.env.mujoco.task_check.check import check_contract
from robo_rl.testing.env import random_act

MakeTask = Callable[[], Task]

_STARTS = 64
_RANDOM_S = 2.0


def check_task(make_task: MakeTask, *, episodes: int = 8, min_success: float = 0.7) -> None:
    """Check the properties of every ``Task``.

    Args:
        make_task: Returns a new task.
        episodes: Episodes of its demonstrator at noise 0, if it has one; 0 runs none.
        min_success: Fraction of these that must succeed.

    Raises:
        PluginError: Names the violated property; lists all violations that also stop a run.
        ConfigError: ``dt_s`` is no multiple of the scene's physics step.
    """
    task = make_task()
    scene = check_contract(task, num=_STARTS)
    _check_starts(task, make_task(), scene.model)
    _check_deltas(task)
    with closing(_env(task, _STARTS)) as env:
        _check_outputs(task, env, scene.model)
        _check_random_actions(task, env)
    if episodes and hasattr(task, "expert"):
        success = demonstrate(task, episodes, noise=0.0)
        share = success.float().mean().item()
        _require(share >= min_success, "the expert fails", f">= {min_success:.0%}", f"{share:.0%}")


def demonstrate(task: Task, num_envs: int, *, noise: float, seed: int = 0) -> Tensor:
    """Return whether each of num_envs episodes of the task's demonstrator succeeds, (B,) bool.

    Args:
        task: A task with a demonstrator.
        num_envs: B, one episode each.
        noise: The demonstrator's noise level.
        seed: Seed of starts and noise.

    Raises:
        PluginError: An action does not fit ``act_spec``.
    """
    generator = make_generator("conformance", seed)
    expert: Expert = cast("Demonstrable", task).expert(num_envs, generator, noise)
    ids = torch.arange(num_envs)
    succeeded, over = torch.zeros(2, num_envs, dtype=torch.bool)
    with closing(_env(task, num_envs)) as env:
        env.reset(seed)
        expert.reset(ids)
        for _ in range(env.max_episode_steps):
            shown = Demonstration.of(expert.act(env.view))
            _check_act(task, "act", shown.act, num_envs)
            _check_act(task, "label", shown.label, num_envs)
            step = env.step(shown.act)
            succeeded |= (step.metrics["success"] > 0) & ~over
            over |= step.terminated | step.truncated
            expert.reset(ids[step.terminated | step.truncated])
            if over.all():
                break
    return succeeded


def _env(task: Task, num_envs: int) -> SimEnv:
    return SimEnv(SimEnv.Config(), task, num_envs)


def _require(holds: bool, problem: str, expected: object = None, found: object = None) -> None:
    if not holds:
        raise PluginError(problem, where="conformance", expected=expected, found=found)


def _check_starts(task: Task, other: Task, model: Any) -> None:
    """Check that starts lie within the joint limits, and depend on the generator alone."""
    start = task.reset(_STARTS, torch.Generator().manual_seed(0))
    again = other.reset(_STARTS, torch.Generator().manual_seed(0))
    _require(_same(start, again), "reset: the same generator gives another start")
    later = task.reset(_STARTS, torch.Generator().manual_seed(1))
    _require(not _same(start, later), "reset: another generator gives the same start")
    _check_limits(model, start.qpos)


def _same(left: Reset, right: Reset) -> bool:
    pairs = [(left.qpos, right.qpos), (left.qvel, right.qvel)]
    pairs += [(left.goal[name], right.goal[name]) for name in left.goal]
    return all(torch.equal(*pair) for pair in pairs)


def _check_limits(model: Any, qpos: Tensor) -> None:
    for joint in range(model.njnt):
        if not model.jnt_limited[joint]:
            continue
        low, high = model.jnt_range[joint].tolist()
        value = qpos[:, model.jnt_qposadr[joint]]
        inside = bool(((value >= low - 1e-6) & (value <= high + 1e-6)).all())
        found = f"[{value.min():.4g}, {value.max():.4g}]"
        _require(inside, f"reset: joint '{model.joint(joint).name}'", f"[{low}, {high}]", found)


def _check_outputs(task: Task, env: SimEnv, model: Any) -> None:
    """Check that controls are within the actuators' ranges, and that no start is a success."""
    env.reset(0)
    view = env.view
    act = random_act(task.act_spec, env.num_envs, 1, torch.Generator().manual_seed(0))[:, 0]
    _check_control(task, view, act, model)
    if task.open_loop:
        _check_open_loop(task, view, act)
    _require(not bool(task.success(view).any()), "an episode starts with success")
    _require(not bool(task.terminated(view).any()), "an episode starts at its end")


def _check_deltas(task: Task) -> None:
    """Check that changes have limits about 0, and that the task knows what they count from."""
    spec = task.act_spec
    if not any(spec.is_delta):
        return
    _require(isinstance(task, DeltaTask), "a task with delta actions", "start_ctrl and absolute")
    _require(bool(spec.low and spec.high), "act_spec: delta actions without limits")
    for index in (i for i, delta in enumerate(spec.is_delta) if delta):
        low, high = spec.low[index], spec.high[index]
        inside = -math.inf < low < 0.0 < high < math.inf
        _require(inside, f"act_spec: change '{spec.element(index)}'", "low < 0 < high", (low, high))
    absolute = cast(DeltaTask, task).absolute().act_spec
    same = absolute.names == spec.names and not any(absolute.is_delta)
    _require(same, "absolute: act_spec", f"targets of {', '.join(spec.names)}", absolute.reference)


def _check_open_loop(task: Task, view: SimView, act: Tensor) -> None:
    """Check that controls stay the same in another state of the world with the same ctrl."""
    goal = {name: value.flip(0) for name, value in view.goal.items()}
    sensors, qpos, qvel = view.sensordata.flip(0), view.qpos.flip(0), view.qvel.flip(0)
    other = replace(view, qpos=qpos, qvel=qvel, sensordata=sensors, goal=goal)
    same = torch.equal(task.control(view, act), task.control(other, act))
    _require(same, "open_loop: control reads more of the view than ctrl")


def _check_rows(name: str, value: Tensor, rows: int) -> None:
    _require(tuple(value.shape) == (rows,), name, (rows,), tuple(value.shape))


def _check_control(task: Task, view: SimView, act: Tensor, model: Any) -> None:
    ctrl = task.control(view, act)
    low, high = torch.tensor(model.actuator_ctrlrange).float().unbind(-1)
    limited = torch.tensor(model.actuator_ctrllimited, dtype=torch.bool)
    inside = ((ctrl >= low - 1e-5) & (ctrl <= high + 1e-5)) | ~limited
    _require(bool(inside.all()), "control leaves the actuators' ranges")


def _check_random_actions(task: Task, env: SimEnv) -> None:
    """Check that two seconds of random actions keep the world and its outputs finite."""
    steps = max(1, round(_RANDOM_S / task.dt_s))
    act = random_act(task.act_spec, env.num_envs, steps, torch.Generator().manual_seed(2))
    for act_t in act.unbind(1):
        step = env.step(act_t)
        values = step.metrics.values()  # the env checks observations and reward
        _require(
            all(bool(v.isfinite().all()) for v in values), "random actions give non-finite numbers"
        )
        bad = int(step.metrics["nan_worlds"].sum())
        _require(bad == 0, "random actions break worlds", 0, bad)


def _check_act(task: Task, name: str, act: Tensor, num_envs: int) -> None:
    task.act_spec.validate_array(f"the expert's {name}", act)
    _check_rows(f"the expert's {name}", act[:, 0], num_envs)
    low, high = torch.tensor(task.act_spec.low), torch.tensor(task.act_spec.high)
    inside = len(low) == 0 or bool(((act >= low) & (act <= high)).all())
    _require(inside, f"the expert's {name} leaves act_spec's limits")
