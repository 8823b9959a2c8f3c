"""The same states and controls on C and on Warp, for every task and robot that ships.

A demonstrator drives each task on C for 100 control steps; Warp gets the same controls. Two things
are compared. Warp's own course from the same start, open loop, as far as physics lets courses be
compared: the arm all the way, since its servos pull it back, and what lies about until the C engine
sees it touched. And, once a contact has made the courses part, each control step by itself: Warp is
put at every state that C went through and makes the one step from there.

The differences have two causes: float32 against float64, and another algorithm for box against box,
so that a contact may come a physics step earlier or later, and at other points of a face.

Shapes: B worlds, T control steps, nq, nv of the scene.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, NamedTuple

import pytest
import torch
from torch import Tensor

pytest.importorskip("mujoco_warp", reason="the extra 'warp' is not installed")

from robo_rl.config import ConfigModel, compose, validate
from robo_rl.env.base import Sized
from robo_rl.env.sim import SimEnv
from robo_rl.registry import Component, component

WORLDS, STEPS = 4, 100
TOUCHED_M = 1e-4
SCENES = {
    "reach": {},
    "reach_so101": {"task": {"name": "reach", "robot": "so101"}},
    "lift_cube": {},
    "lift_cube_so101": {},
    "push_t": {},
}
BACKENDS = {"c": {"name": "mujoco_cpu"}, "warp": {"name": "mujoco_warp", "device": "cpu"}}


class _Root(ConfigModel):
    task: Annotated[Component, component("tasks")]


class Course(NamedTuple):
    """States (T+1, B, …) and the controls (T, B, nu) between them."""

    qpos: Tensor
    qvel: Tensor
    sensors: Tensor
    ctrl: Tensor


def make_task(name):
    return validate(SCENES[name] or compose(f"task/{name}"), _Root).task.build()


def load(which, task, num_envs, start):
    backend = component("backends").make(BACKENDS[which]).build()
    if isinstance(backend, Sized):
        backend.fit(task.scene(), start.qpos, start.qvel)
    backend.load(task.scene(), num_envs)
    return backend


def put(backend, qpos, qvel):
    backend.write(torch.arange(len(qpos)), qpos, qvel)


def substeps(task):
    return round(task.dt_s / task.scene().option.timestep)


def demonstrated(task, start):
    """The course of the demonstrator on C, without an end of an episode."""
    backend, expert = load("c", task, WORLDS, start), task.expert(WORLDS, gen(1), 0.3)
    put(backend, start.qpos, start.qvel)
    expert.reset(torch.arange(WORLDS))
    low, high = torch.tensor(task.act_spec.low), torch.tensor(task.act_spec.high)
    states, ctrls = [backend.view()], []
    states = [replaced(states[0])]
    for _ in range(STEPS):
        view = replace(backend.view(), goal=start.goal)
        ctrls.append(task.control(view, expert.act(view).clamp(low, high)).double())
        states.append(replaced(backend.step(ctrls[-1].unsqueeze(1), substeps(task))[0]))
    backend.close()
    qpos, qvel, sensors = (torch.stack([state[i] for state in states]) for i in range(3))
    return Course(qpos, qvel, sensors, torch.stack(ctrls))


def replaced(view):
    return view.qpos.double().clone(), view.qvel.double().clone(), view.sensordata.double().clone()


def gen(seed):
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module", params=SCENES)
def scene(request):
    task = make_task(request.param)
    start = task.reset(WORLDS, gen(0))
    return request.param, task, start, demonstrated(task, start)


def test_courses_agree_until_they_may_part(scene):
    name, task, start, course = scene
    backend = load("warp", task, WORLDS, start)
    put(backend, start.qpos, start.qvel)
    views = backend.step(course.ctrl.transpose(0, 1), substeps(task))
    qpos = torch.stack([view.qpos.double() for view in views])
    backend.close()
    print(name, "free", (qpos - course.qpos[1:]).abs().amax(dim=(1,))[[0, 9, 29, 59, 99]])


def test_each_control_step_agrees(scene):
    name, task, start, course = scene
    qpos, qvel, ctrl = (x.flatten(0, 1) for x in (course.qpos[:-1], course.qvel[:-1], course.ctrl))
    backend = load("warp", task, len(qpos), start)
    put(backend, qpos, qvel)
    view = backend.step(ctrl.unsqueeze(1), substeps(task))[0]
    for what, found, right in zip(
        ("qpos", "qvel", "sensors"),
        replaced(view),
        (c[1:].flatten(0, 1) for c in course[:3]),
        strict=True,
    ):
        error = (found - right).abs()
        print(
            name,
            what,
            "median",
            error.median(0).values,
            "p95",
            error.quantile(0.95, dim=0),
            "max",
            error.amax(0),
        )
    assert not any(bool(count.any()) for count in view.counters.values())
    backend.close()


def test_resets_agree(scene):
    _, task, _, _ = scene
    obs = {}
    for which, backend in BACKENDS.items():
        env = SimEnv(SimEnv.Config.model_validate({"backend": backend}), task, 32)
        first = env.reset(0)
        env.step(torch.tensor(task.act_spec.high).expand(32, -1))
        obs[which] = first, env.reset()
        env.close()
    for left, right in zip(obs["c"], obs["warp"], strict=True):
        for name, value in left.items():
            torch.testing.assert_close(right[name], value, atol=2e-6, rtol=0)
