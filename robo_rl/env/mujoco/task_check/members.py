"""Checks that a task has the members of ``Task``, each of the right type."""

from __future__ import annotations

import inspect
import math
from numbers import Real
from typing import Any

import torch

from robo_rl.api.task import DeltaTask
from robo_rl.core.spec import ActSpec, ObsSpec
from robo_rl.core.suggestions import nearest
from robo_rl.env.env_check import act_problem
from robo_rl.env.mujoco.task_check.problems import Problems

_METHODS = ("scene", "reset", "control", "observe", "reward", "terminated", "success")


def check_members(task: Any, problems: Problems) -> set[str]:
    """Return the names of missing or invalid members, and add a line about each.

    Args:
        task: The object given as the task.
        problems: Collects the lines.
    """
    wrong = {name for name in _METHODS if not callable(getattr(task, name, None))}
    known = [name for name in dir(task) if not name.startswith("_")]
    fits = {
        "robot": (_is_robot, "a Robot, or None"),
        "obs_spec": (lambda value: isinstance(value, ObsSpec), "an ObsSpec"),
        "act_spec": (lambda value: isinstance(value, ActSpec), "an ActSpec"),
        "dt_s": (_is_period, "the control period in s"),
        "episode_s": (_is_period, "the time limit in s"),
        "open_loop": (lambda value: isinstance(value, bool), "True or False"),
    }
    for name in sorted(wrong):
        near = nearest(name, [each for each in known if each not in (*_METHODS, *fits)])
        hint = f"did you mean '{name}' by '{near}'?" if near else None
        problems.add_problem(name, "is missing", "a method", hint=hint)
    for name, (fit, expected) in fits.items():
        if not hasattr(task, name):
            problems.add_problem(name, "is missing", expected)
        elif not fit(getattr(task, name)):
            problems.add_problem(name, "cannot be used", expected, repr(getattr(task, name))[:60])
        else:
            continue
        wrong.add(name)
    if not wrong & {"dt_s", "episode_s"} and round(task.episode_s / task.dt_s) < 1:
        problems.add_problem(
            "episode_s", "is shorter than dt_s", f"{task.dt_s} s or more", task.episode_s
        )
    if "act_spec" not in wrong:
        _check_act(task, problems, rated="dt_s" not in wrong)
    _check_expert(task, problems)
    return wrong


def _check_act(task: Any, problems: Problems, *, rated: bool) -> None:
    """Check limits and rate of the actions, and that changes have a command to count from."""
    spec: ActSpec = task.act_spec
    if problem := act_problem(spec, task.dt_s if rated else None):
        problems.add_problem("act_spec", f"is impossible: {problem}")
    if any(spec.is_delta) and not isinstance(task, DeltaTask):
        lacks = [name for name in ("start_ctrl", "absolute") if not hasattr(task, name)]
        problems.add_problem(
            "act_spec",
            "has delta actions, which need methods of DeltaTask",
            "start_ctrl(start) and absolute()",
            f"no {' and no '.join(lacks)}",
        )


def _check_expert(task: Any, problems: Problems) -> None:
    """Check the signature of the demonstrator's factory, if the task has one."""
    try:
        if hasattr(task, "expert"):
            inspect.signature(task.expert).bind(1, torch.Generator(), 0.0)
    except TypeError as error:
        problems.add_problem(
            "expert", f"cannot be called: {error}", "expert(num_envs, generator, noise)"
        )


def _is_robot(value: Any) -> bool:
    return value is None or isinstance(getattr(value, "name", None), str)


def _is_period(value: object) -> bool:
    return isinstance(value, Real) and math.isfinite(value) and float(value) > 0
