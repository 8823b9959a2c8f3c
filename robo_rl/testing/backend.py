"""Conformance suite for ``Backend``, on a small test scene.

Shapes: B worlds. ``check_backend`` returns None, or raises ``PluginError`` with the violated
property.
"""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import torch
from torch import Tensor

from robo_rl.api.env import Backend, SimView
from robo_rl.core.errors import PluginError
from robo_rl.env.mujoco.mocap import demand_placeable


def check_backend(make_backend: Callable[[], Backend]) -> None:
    """Check the properties of every ``Backend`` on a small test scene.

    Args:
        make_backend: Returns a new backend without a loaded scene.

    Raises:
        PluginError: Names the violated property.
    """
    checks = (_check_write, _check_lag, _check_sequence, _check_isolation, _check_fields)
    for check in (*checks, _check_mocap):
        with closing(make_backend()) as backend:
            demand_placeable(_scene().compile(), backend)
            backend.load(_scene(), 4)
            said, found = getattr(backend, "dtype", None), backend.view().qpos.dtype
            require(said == found, "dtype is not that of the views", expected=found, found=said)
            check(backend)


def require(holds: bool, problem: str, *, expected: object = None, found: object = None) -> None:
    """Raise ``PluginError`` unless the property holds."""
    if not holds:
        raise PluginError(problem, where="conformance", expected=expected, found=found)


def _scene() -> Any:
    """Return a scene of a cart on a slide with a position servo, a box on the floor, and a wall."""
    import mujoco

    spec = mujoco.MjSpec()
    spec.option.timestep = 0.005
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[5, 5, 0.1])
    cart = spec.worldbody.add_body(name="cart", pos=[0, 0, 1])
    cart.add_joint(name="slide", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[1, 0, 0])
    cart.add_geom(size=[0.1, 0.1, 0.1], type=mujoco.mjtGeom.mjGEOM_BOX, mass=1.0)
    box = spec.worldbody.add_body(name="box", pos=[0, 0, 0.1])
    box.add_freejoint()
    box.add_geom(size=[0.1, 0.1, 0.1], type=mujoco.mjtGeom.mjGEOM_BOX, mass=0.5)
    wall = spec.worldbody.add_body(name="wall", mocap=True, pos=[0, 3, 1])
    wall.add_geom(size=[0.1, 0.5, 0.5], type=mujoco.mjtGeom.mjGEOM_BOX, mass=1.0)
    servo = spec.add_actuator(name="servo", target="slide")
    servo.trntype = mujoco.mjtTrn.mjTRN_JOINT
    servo.set_to_position(kp=50.0, kv=5.0)
    joint = mujoco.mjtObj.mjOBJ_JOINT
    spec.add_sensor(
        name="pos", type=mujoco.mjtSensor.mjSENS_JOINTPOS, objtype=joint, objname="slide"
    )
    return spec


def _place(backend: Backend, ids: list[int], at_m: float, mocap: Tensor | None = None) -> None:
    """Put the cart at at_m and at rest, and the box on the floor."""
    row = torch.tensor([at_m, 0, 0, 0.1, 1, 0, 0, 0], dtype=torch.float64)
    rest = torch.zeros(len(ids), 7, dtype=torch.float64)
    backend.write(torch.tensor(ids), row.repeat(len(ids), 1), rest, mocap=mocap)


def _drive(backend: Backend, ctrl: Tensor) -> SimView:
    """Hold ctrl (B,) for ten control steps, one call each."""
    views = [backend.step(ctrl.view(-1, 1, 1), 4)[0] for _ in range(10)]
    return views[-1]


def _all(view: SimView) -> Tensor:
    return torch.cat([view.qpos, view.qvel, view.sensordata, view.time_s[:, None]], dim=1).clone()


def _check_write(backend: Backend) -> None:
    _drive(backend, torch.ones(4))
    before = _all(backend.view())
    _place(backend, [1, 2], 0.3)
    view, after = backend.view(), _all(backend.view())
    written = view.qpos[[1, 2], 0], view.sensor("pos")[[1, 2], 0]
    for value in written:
        require(bool((value == 0.3).all()), "write() leaves qpos or sensors stale", found=value)
    require(bool((view.time_s[[1, 2]] == 0).all()), "write() must set the time to zero")
    require(torch.equal(before[[0, 3]], after[[0, 3]]), "write() touches other worlds")


def _check_lag(backend: Backend) -> None:
    _place(backend, [0, 1, 2, 3], 0.0)
    early = backend.step(torch.ones(4, 1, 1), 3)[0].qpos.clone()
    _place(backend, [0, 1, 2, 3], 0.0)
    view = backend.step(torch.ones(4, 1, 1), 4)[0]
    lag = (view.sensor("pos")[:, 0] - early[:, 0]).abs().max()
    exact = 1e-9 if early.dtype == torch.float64 else 1e-6
    require(bool(lag < exact), "sensors must lag the state by one physics step", found=float(lag))
    time_s = view.time_s
    require(torch.allclose(time_s, time_s.new_tensor(0.02)), "time is not substeps · timestep")


def _check_sequence(backend: Backend) -> None:
    ctrl = torch.linspace(-1, 1, 12, dtype=torch.float64).view(4, 3, 1)
    _place(backend, [0, 1, 2, 3], 0.0)
    whole = [_all(view) for view in backend.step(ctrl, 4)]
    _place(backend, [0, 1, 2, 3], 0.0)
    single = [_all(backend.step(ctrl[:, t : t + 1], 4)[0]) for t in range(3)]
    # Solvers may use a warm start within a call but not across calls.
    close = all(torch.allclose(a, b, atol=1e-5) for a, b in zip(whole, single, strict=True))
    require(close, "T control steps in one call differ from T calls")
    require(torch.equal(single[-1], _all(backend.view())), "view() is not where step() ended")


def _check_isolation(backend: Backend) -> None:
    ctrl = torch.tensor([0.5, -0.5, 0.2, 1.0])
    _place(backend, [0, 1, 2, 3], 0.0)
    clean = _all(_drive(backend, ctrl))
    bad = ctrl.clone()
    bad[1] = torch.nan
    _place(backend, [0, 1, 2, 3], 0.0)
    _place(backend, [2], torch.nan)
    dirty = _all(_drive(backend, bad))
    require(torch.equal(clean[[0, 3]], dirty[[0, 3]]), "a bad world disturbs the others")
    _place(backend, [0, 1, 2, 3], 0.0)
    require(torch.equal(clean, _all(_drive(backend, ctrl))), "write() does not heal a bad world")


def _check_fields(backend: Backend) -> None:
    """Check that a heavier cart lags behind its servo, and that other worlds are unaffected."""
    _place(backend, [0, 1, 2, 3], 0.0)
    clean = _all(_drive(backend, torch.ones(4)))
    _place(backend, [0, 1, 2, 3], 0.0)
    row = torch.tensor([[0.0, 0, 0, 0.1, 1, 0, 0, 0]], dtype=torch.float64)
    mass = torch.tensor([[0.0, 3.0, 0.5, 1.0]], dtype=torch.float64)
    backend.write(torch.tensor([2]), row, torch.zeros(1, 7), {"body_mass": mass})
    heavy = _all(_drive(backend, torch.ones(4)))
    require(bool(heavy[2, 0] < clean[2, 0]), "a field written for one world has no effect")
    others = [0, 1, 3]
    require(torch.equal(clean[others], heavy[others]), "a field of one world reaches the others")


def _check_mocap(backend: Backend) -> None:
    """Check that a wall blocks the cart at its mocap pose, and only while it is there."""
    _place(backend, [0, 1, 2, 3], 0.0)
    clean = _all(_drive(backend, torch.ones(4)))
    _place(backend, [0, 1, 3], 0.0)
    pose = torch.tensor([[[0.4, 0, 1, 1, 0, 0, 0]]], dtype=torch.float64)
    _place(backend, [2], 0.0, mocap=pose)
    stopped = _all(_drive(backend, torch.ones(4)))
    at_m = float(stopped[2, 0])
    require(at_m < 0.25, "a mocap body is not where write() puts it", expected="< 0.25", found=at_m)
    others = [0, 1, 3]
    require(torch.equal(clean[others], stopped[others]), "a mocap body reaches other worlds")
    _place(backend, [0, 1, 2, 3], 0.0)
    back = _all(_drive(backend, torch.ones(4)))
    require(torch.equal(clean, back), "write() leaves a mocap body where it was")
