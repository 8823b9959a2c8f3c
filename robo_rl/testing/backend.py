"""Conformance suite for ``Backend``, on a small test scene.

Shapes: B worlds. ``check_backend`` returns None, or raises ``PluginError`` with the violated
property.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from inspect import signature

import torch
from torch import Tensor

from robo_rl.api.env import Backend
from robo_rl.core.errors import PluginError
from robo_rl.env.mujoco.mocap import demand_placeable
from robo_rl.testing.backend_scene import drive, place, scene, values


def check_backend(make_backend: Callable[[], Backend]) -> None:
    """Check the properties of every ``Backend`` on a small test scene.

    Args:
        make_backend: Returns a new backend without a loaded scene.

    Raises:
        PluginError: Names the violated property.
    """
    checks = (_check_write, _check_velocity, _check_ctrl, _check_lag, _check_sequence)
    for check in (*checks, _check_isolation, _check_fields, _check_mocap, _check_turned_mocap):
        with closing(make_backend()) as backend:
            demand_placeable(scene().compile(), backend)
            backend.load(scene(), 4)
            said, found = getattr(backend, "dtype", None), backend.view().qpos.dtype
            require(said == found, "dtype is not that of the views", expected=found, found=said)
            check(backend)


def require(holds: bool, problem: str, *, expected: object = None, found: object = None) -> None:
    """Raise ``PluginError`` unless the property holds."""
    if not holds:
        raise PluginError(problem, where="conformance", expected=expected, found=found)


def _check_write(backend: Backend) -> None:
    drive(backend, torch.ones(4))
    before = values(backend.view())
    place(backend, [1, 2], 0.3)
    view, after = backend.view(), values(backend.view())
    written = view.qpos[[1, 2], 0], view.sensor("pos")[[1, 2], 0]
    for value in written:
        require(bool((value == 0.3).all()), "write() leaves qpos or sensors stale", found=value)
    require(bool((view.time_s[[1, 2]] == 0).all()), "write() must set the time to zero")
    require(torch.equal(before[[0, 3]], after[[0, 3]]), "write() touches other worlds")


def _check_velocity(backend: Backend) -> None:
    """Check that a written velocity is shown, and that the cart moves with it."""
    place(backend, [0, 1, 2, 3], 0.0)
    rest = values(drive(backend, torch.zeros(4)))
    place(backend, [0, 3], 0.0)
    qvel = torch.linspace(0.1, 0.8, 14, dtype=torch.float64).view(2, 7)
    place(backend, [1, 2], 0.0, qvel=qvel)
    found = backend.view().qvel[[1, 2]].clone()
    shown = torch.equal(found, qvel.to(found))
    require(shown, "write() leaves qvel stale", expected=qvel.tolist(), found=found.tolist())
    moved = values(drive(backend, torch.zeros(4)))
    require(bool((moved[[1, 2], 0] > rest[[1, 2], 0]).all()), "a written qvel moves nothing")
    require(torch.equal(moved[[0, 3]], rest[[0, 3]]), "a written qvel reaches other worlds")


def _check_ctrl(backend: Backend) -> None:
    """Check that views show the last control: that of ``write``, of ``step``, or zeros."""
    applied = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    _demand_ctrl("step()", drive(backend, applied).ctrl, applied)
    _demand_ctrl("view() after step()", backend.view().ctrl, applied)
    if "ctrl" in signature(backend.write).parameters:
        written = torch.tensor([[0.5], [-0.6]], dtype=torch.float64)
        place(backend, [1, 2], 0.0, ctrl=written)
        now = torch.cat([applied[:1], written[:, 0], applied[3:]])
        _demand_ctrl("view() after write(ctrl)", backend.view().ctrl, now)
    place(backend, [1, 2], 0.0)
    now = torch.cat([applied[:1], torch.zeros(2), applied[3:]])
    _demand_ctrl("view() after write() without ctrl", backend.view().ctrl, now)


def _demand_ctrl(where: str, found: Tensor, expected: Tensor) -> None:
    same = torch.equal(found[:, 0], expected.to(found))
    problem = f"{where} does not show the last control"
    require(same, problem, expected=expected.tolist(), found=found[:, 0].tolist())


def _check_lag(backend: Backend) -> None:
    place(backend, [0, 1, 2, 3], 0.0)
    early = backend.step(torch.ones(4, 1, 1), 3)[0].qpos.clone()
    place(backend, [0, 1, 2, 3], 0.0)
    view = backend.step(torch.ones(4, 1, 1), 4)[0]
    lag = (view.sensor("pos")[:, 0] - early[:, 0]).abs().max()
    exact = 1e-9 if early.dtype == torch.float64 else 1e-6
    require(bool(lag < exact), "sensors must lag the state by one physics step", found=float(lag))
    time_s = view.time_s
    require(torch.allclose(time_s, time_s.new_tensor(0.02)), "time is not substeps · timestep")


def _check_sequence(backend: Backend) -> None:
    ctrl = torch.linspace(-1, 1, 12, dtype=torch.float64).view(4, 3, 1)
    place(backend, [0, 1, 2, 3], 0.0)
    whole = [values(view) for view in backend.step(ctrl, 4)]
    place(backend, [0, 1, 2, 3], 0.0)
    single = [values(backend.step(ctrl[:, t : t + 1], 4)[0]) for t in range(3)]
    # Solvers may use a warm start within a call but not across calls.
    close = all(torch.allclose(a, b, atol=1e-5) for a, b in zip(whole, single, strict=True))
    require(close, "T control steps in one call differ from T calls")
    require(torch.equal(single[-1], values(backend.view())), "view() is not where step() ended")


def _check_isolation(backend: Backend) -> None:
    ctrl = torch.tensor([0.5, -0.5, 0.2, 1.0])
    place(backend, [0, 1, 2, 3], 0.0)
    clean = values(drive(backend, ctrl))
    bad = ctrl.clone()
    bad[1] = torch.nan
    place(backend, [0, 1, 2, 3], 0.0)
    place(backend, [2], torch.nan)
    dirty = values(drive(backend, bad))
    require(torch.equal(clean[[0, 3]], dirty[[0, 3]]), "a bad world disturbs the others")
    place(backend, [0, 1, 2, 3], 0.0)
    require(torch.equal(clean, values(drive(backend, ctrl))), "write() does not heal a bad world")


def _check_fields(backend: Backend) -> None:
    """Check that a heavier cart lags behind its servo, and that other worlds are unaffected."""
    place(backend, [0, 1, 2, 3], 0.0)
    clean = values(drive(backend, torch.ones(4)))
    place(backend, [0, 1, 2, 3], 0.0)
    row = torch.tensor([[0.0, 0, 0, 0.1, 1, 0, 0, 0]], dtype=torch.float64)
    mass = torch.tensor([[0.0, 3.0, 0.5, 1.0]], dtype=torch.float64)
    backend.write(torch.tensor([2]), row, torch.zeros(1, 7), {"body_mass": mass})
    heavy = values(drive(backend, torch.ones(4)))
    require(bool(heavy[2, 0] < clean[2, 0]), "a field written for one world has no effect")
    others = [0, 1, 3]
    require(torch.equal(clean[others], heavy[others]), "a field of one world reaches the others")


def _check_mocap(backend: Backend) -> None:
    """Check that a wall blocks the cart at its mocap pose, and only while it is there."""
    place(backend, [0, 1, 2, 3], 0.0)
    clean = values(drive(backend, torch.ones(4)))
    place(backend, [0, 1, 3], 0.0)
    pose = torch.tensor([[[0.4, 0, 1, 1, 0, 0, 0]]], dtype=torch.float64)
    place(backend, [2], 0.0, mocap=pose)
    stopped = values(drive(backend, torch.ones(4)))
    at_m = float(stopped[2, 0])
    require(at_m < 0.25, "a mocap body is not where write() puts it", expected="< 0.25", found=at_m)
    others = [0, 1, 3]
    require(torch.equal(clean[others], stopped[others]), "a mocap body reaches other worlds")
    place(backend, [0, 1, 2, 3], 0.0)
    back = values(drive(backend, torch.ones(4)))
    require(torch.equal(clean, back), "write() leaves a mocap body where it was")


def _check_turned_mocap(backend: Backend) -> None:
    """Check that a wall blocks the cart with an end that is there only if turned by 45° about z."""
    turn = math.cos(math.pi / 8), 0.0, 0.0, math.sin(math.pi / 8)
    pose = torch.tensor([[[0.65, -0.354, 1.0, *turn]]], dtype=torch.float64)
    place(backend, [0, 1, 3], 0.0)
    place(backend, [2], 0.0, mocap=pose)
    at_m = float(drive(backend, torch.ones(4)).qpos[2, 0])
    problem = "a mocap body is not turned as write() says, by a quaternion wxyz"
    require(at_m < 0.25, problem, expected="< 0.25", found=at_m)
