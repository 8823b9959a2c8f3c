"""Control steps of an open-loop sequence on a physics backend.

Shapes: B envs, T control steps, A act_dim, nu actuators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from robo_rl.api.env import Backend, SimView
from robo_rl.api.task import Task


def control_steps(
    task: Task, backend: Backend, look: Callable[[], SimView], act: Tensor, substeps: int
) -> Iterator[tuple[SimView, Tensor]]:
    """Yield (view, act (B, A)) after each control step of act (B, T, A).

    The backend is called once where the task's controls do not depend on the motion.

    Args:
        task: The task, which turns actions into controls.
        backend: Physics of B worlds.
        look: Returns the current view of the worlds.
        act: Actions (B, T, A).
        substeps: Physics steps of a control step.
    """
    if not task.open_loop:
        for act_t in act.unbind(1):
            ctrl = task.control(look(), act_t).unsqueeze(1)
            yield backend.step(ctrl, substeps)[0], act_t
        return
    views = backend.step(control_sequence(task, look(), act), substeps)
    yield from zip(views, act.unbind(1), strict=True)


def control_sequence(task: Task, view: SimView, act: Tensor) -> Tensor:
    """Return the controls (B, T, nu) of act (B, T, A), each computed from the previous one."""
    controls = list[Tensor]()
    for act_t in act.unbind(1):
        controls.append(task.control(view, act_t))
        view = replace(view, ctrl=controls[-1])
    return torch.stack(controls, dim=1)
