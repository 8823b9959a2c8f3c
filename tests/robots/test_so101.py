"""The so101 has the published kinematics and holds a small cube between its jaws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import robo_rl_robots

mujoco = pytest.importorskip("mujoco")
SO101 = robo_rl_robots.so101
# The angle of the moving jaw at which the pads are parallel, 25 mm apart.
PARALLEL = 0.25


def at(qpos: np.ndarray, spec: Any = None):
    model = (spec or SO101.spec()).compile()
    data = mujoco.MjData(model)
    data.qpos[: len(qpos)], data.ctrl[:] = qpos, qpos
    mujoco.mj_forward(model, data)
    return model, data


def test_gripper_frame_is_where_the_joint_offsets_put_it() -> None:
    """At zero: upper arm up, lower arm and gripper forward, by the published joint origins."""
    forward = 0.0388353 + 0.0303992 + 0.028 + 0.1349 + 0.0611 + 0.0981274
    up = 0.0624 + 0.0542 + 0.11257 + 0.0052
    _, data = at(np.zeros(6))
    gripper = data.body("gripper")
    tip = gripper.xpos + gripper.xmat.reshape(3, 3) @ [-0.0079, -0.000218121, -0.0981274]
    assert tip[[0, 2]] == pytest.approx([forward, up - 0.0079], abs=1e-4)


def test_home_points_straight_down() -> None:
    _, data = at(SO101.home_qpos)
    rot = data.site("ee_site").xmat.reshape(3, 3)
    assert rot == pytest.approx(np.diag([1.0, -1.0, -1.0]), abs=2e-3)


def test_pads_are_parallel_at_25_mm() -> None:
    model, data = at(np.array([0, 0, 0, 0, 0, PARALLEL]))
    gap = data.geom("moving_pad").xpos - data.geom("fixed_pad").xpos
    width = np.linalg.norm(gap) - 2 * model.geom("fixed_pad").size[0]
    assert width == pytest.approx(0.025, abs=1e-5)
    assert data.geom("moving_pad").xmat == pytest.approx(data.geom("fixed_pad").xmat, abs=1e-5)


def test_grasped_cube_is_held() -> None:
    _, data = at(SO101.home_qpos)
    spec = SO101.spec()
    site = data.site("ee_site")
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, site.xmat)
    cube = spec.worldbody.add_body(name="cube", pos=site.xpos, quat=quat)
    cube.add_freejoint()
    cube.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.0125] * 3, mass=0.015)
    model, data = at(SO101.home_qpos, spec)
    assert SO101.gripper
    model.opt.gravity[:], data.ctrl[5] = 0, SO101.gripper.closed
    mujoco.mj_step(model, data, 100)
    model.opt.gravity[2] = -9.81
    offset = data.body("cube").xpos - data.site("ee_site").xpos
    mujoco.mj_step(model, data, 400)
    assert data.body("cube").xpos - data.site("ee_site").xpos == pytest.approx(offset, abs=1e-3)
