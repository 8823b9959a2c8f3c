"""A task computes where its view is: torch's ``meta`` device refuses to mix with the CPU."""

from __future__ import annotations

import pytest
import torch

from robo_rl.api.env import SimView
from robo_rl.config.component import component
from robo_rl.config.registry import names
from robo_rl.env.mujoco.sensor_slices import sensor_slices

META = torch.device("meta")


@pytest.fixture(params=names("tasks"))
def task(request):
    return component("tasks").make(request.param).build()


def meta_view(task, num):
    model = task.scene().compile()
    goal = task.reset(num, torch.Generator().manual_seed(0)).goal
    sizes = model.nq, model.nv, model.nu, model.nsensordata
    qpos, qvel, ctrl, sensors = (torch.empty(num, size, device=META) for size in sizes)
    time_s, goal = torch.empty(num, device=META), {k: v.to(META) for k, v in goal.items()}
    return SimView(qpos, qvel, ctrl, time_s, sensors, goal, sensor_slices(model))


def test_what_a_task_computes_is_where_its_view_is(task):
    view, act = meta_view(task, 3), torch.empty(3, task.act_spec.size, device=META)
    rew, parts = task.reward(view, act)
    made = [rew, *parts.values(), *task.observe(view).values()]
    made += [task.success(view), task.terminated(view)]
    assert all(each.device == META for each in made)
