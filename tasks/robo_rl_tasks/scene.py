"""A robot on a table, and objects on it, with few collision shapes and fast rendering.

The table's top is the plane z = 0, on which the robot's base stands. Robots have shapes of contact
type 2, which collide with all shapes of the default type 1 and never with each other.
"""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from robo_rl import Robot

TABLE = "table"
GOAL_RGBA = (0.2, 0.8, 0.3, 0.5)
_NO_CONTACT = {"contype": 0, "conaffinity": 0}


def tabletop(robot: Robot) -> Any:
    """Return the robot on a table with a light, as a fresh ``mujoco.MjSpec``."""
    import mujoco

    spec = robot.spec()
    spec.worldbody.add_geom(
        name=TABLE,
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        size=[1.0, 1.0, 0.1],
        rgba=[0.45, 0.47, 0.5, 1],
    )
    spec.worldbody.add_light(pos=[0.5, -0.5, 2.0], dir=[0, 0.25, -1], castshadow=False)
    _compute_fast(spec)
    _render_fast(spec)
    return spec


def add_object(spec: Any, name: str, boxes: list[list[float]], mass: float, **geom: Any) -> Any:
    """Add a free body of boxes with sensors ``<name>_pos`` and ``<name>_quat``.

    Args:
        spec: The scene.
        name: Name of the body.
        boxes: Rows of (x, y, z, half x, half y, half z), m.
        mass: Total mass, kg, of uniform density.
        geom: Further attributes of the boxes.

    Returns:
        The body.
    """
    import mujoco

    body = spec.worldbody.add_body(name=name)
    body.add_freejoint(name=name)
    density = mass / sum(8 * box[3] * box[4] * box[5] for box in boxes)
    for box in boxes:
        body.add_geom(
            type=mujoco.mjtGeom.mjGEOM_BOX, pos=box[:3], size=box[3:], density=density, **geom
        )
    kinds = {"pos": mujoco.mjtSensor.mjSENS_FRAMEPOS, "quat": mujoco.mjtSensor.mjSENS_FRAMEQUAT}
    for suffix, kind in kinds.items():
        spec.add_sensor(
            name=f"{name}_{suffix}", type=kind, objtype=mujoco.mjtObj.mjOBJ_XBODY, objname=name
        )
    return body


def add_feet(body: Any, feet: list[list[float]], friction: float) -> None:
    """Add small spheres as feet; their lowest points are rows of (x, y, z) in m."""
    import mujoco

    radius = 0.003
    for x, y, z in feet:
        body.add_geom(
            type=mujoco.mjtGeom.mjGEOM_SPHERE,
            pos=[x, y, z + radius],
            size=[radius, 0, 0],
            friction=[friction, 0, 0],
            mass=0.0,
            priority=1,
        )


def add_peg(spec: Any, site_name: str, radius: float, below: float) -> None:
    """Add a peg to the hand: a capsule along the axis of a site, reaching beyond it, m."""
    import mujoco
    import numpy as np

    site = spec.site(site_name)
    axis, quat = np.zeros(3), np.array(site.quat)
    mujoco.mju_normalize4(quat)
    mujoco.mju_rotVecQuat(axis, np.array([0.0, 0.0, 1.0]), quat)
    upper, lower = site.pos - 0.03 * axis, site.pos + (below - radius) * axis
    site.parent.add_geom(
        name="peg",
        type=mujoco.mjtGeom.mjGEOM_CAPSULE,
        fromto=[*upper, *lower],
        size=[radius, 0, 0],
        mass=0.03,
        contype=2,
        conaffinity=1,
        rgba=[0.85, 0.3, 0.2, 1],
    )


def add_marker(
    spec: Any, name: str, boxes: list[list[float]], rgba: Sequence[float] = GOAL_RGBA
) -> None:
    """Add a mocap body that shows the goal of that name in images and collides with nothing.

    Args:
        spec: The scene.
        name: Key of the goal in ``Reset.goal``.
        boxes: As in ``add_object``.
        rgba: Colour.
    """
    import mujoco

    body = spec.worldbody.add_body(name=name, mocap=True)
    for box in boxes:
        body.add_geom(
            type=mujoco.mjtGeom.mjGEOM_BOX,
            pos=box[:3],
            size=box[3:],
            rgba=list(rgba),
            **_NO_CONTACT,
        )


def _compute_fast(spec: Any) -> None:
    """Set a pyramidal friction cone and disable islands, which is 10 % faster with one arm."""
    import mujoco

    spec.option.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
    spec.option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_ISLAND)


def _render_fast(spec: Any) -> None:
    """Disable shadows and multisampling, use coarse spheres: 128 × 128 in about 1 ms on a CPU."""
    spec.visual.headlight.ambient = [0.35, 0.35, 0.35]
    spec.visual.quality.shadowsize = 0
    spec.visual.quality.offsamples = 0
    spec.visual.quality.numslices = 12
    spec.visual.quality.numstacks = 8
    spec.visual.global_.offwidth = 128
    spec.visual.global_.offheight = 128
