"""The small scene on which a ``Backend`` is checked, and how it is set up and driven.

Shapes: B worlds, n written worlds.
"""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from robo_rl.api.env import Backend, SimView


def scene() -> Any:
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


def place(backend: Backend, ids: list[int], at_m: float, **given: Tensor) -> None:
    """Put the cart at at_m and at rest, and the box on the floor.

    Args:
        backend: Backend with the scene.
        ids: The n worlds.
        at_m: Position of the cart.
        given: Further arguments of ``write``, and ``qvel`` (n, 7) of worlds that are not at rest.
    """
    row = torch.tensor([at_m, 0, 0, 0.1, 1, 0, 0, 0], dtype=torch.float64)
    qvel = given.pop("qvel", torch.zeros(len(ids), 7, dtype=torch.float64))
    rest: dict[str, Any] = dict(given)
    backend.write(torch.tensor(ids), row.repeat(len(ids), 1), qvel, **rest)


def drive(backend: Backend, ctrl: Tensor) -> SimView:
    """Hold ctrl (B,) for ten control steps, one call each."""
    views = [backend.step(ctrl.view(-1, 1, 1), 4)[0] for _ in range(10)]
    return views[-1]


def values(view: SimView) -> Tensor:
    """Return a copy of all numbers of a view except controls, one row per world."""
    return torch.cat([view.qpos, view.qvel, view.sensordata, view.time_s[:, None]], dim=1).clone()
