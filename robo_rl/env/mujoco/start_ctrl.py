"""The control before an episode's first, from which delta actions count.

Shapes: n worlds that begin an episode.
"""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING

from torch import Tensor

from robo_rl.api.task import DeltaTask, Reset, Task
from robo_rl.core.errors import PluginError

if TYPE_CHECKING:
    from robo_rl.api.env import Backend


def start_ctrl(task: Task, start: Reset) -> dict[str, Tensor]:
    """Return the argument ``ctrl`` of ``Backend.write``; empty for a task without delta actions."""
    if not (any(task.act_spec.is_delta) and isinstance(task, DeltaTask)):
        return {}
    return {"ctrl": task.start_ctrl(start)}


def demand_start_ctrl(task: Task, backend: Backend) -> None:
    """Check that the backend shows the control before the first, if the task has delta actions.

    Raises:
        PluginError: The task has delta actions, and the backend's ``write`` takes no control.
    """
    if any(task.act_spec.is_delta) and not takes_ctrl(backend):
        raise PluginError(
            "the task has delta actions, and this backend does not take the control before them",
            where=f"backend {type(backend).__name__}",
            expected="write(ids, qpos, qvel, fields, mocap, ctrl)",
            hint="name another backend, or take absolute actions",
        )


def takes_ctrl(backend: Backend) -> bool:
    """Return whether the backend's ``write`` takes the control of the written worlds."""
    return "ctrl" in signature(backend.write).parameters
