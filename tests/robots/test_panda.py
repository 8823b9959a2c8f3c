"""The panda moves as its data sheet says and holds what it grasps."""

from __future__ import annotations

import numpy as np
import pytest

import robo_rl_robots

mujoco = pytest.importorskip("mujoco")
PANDA = robo_rl_robots.panda
# a, d, alpha of each frame (Craig's convention), Franka Control Interface documentation.
DH = [
    (0, 0.333, 0),
    (0, 0, -np.pi / 2),
    (0, 0.316, np.pi / 2),
    (0.0825, 0, np.pi / 2),
    (-0.0825, 0.384, -np.pi / 2),
    (0, 0, np.pi / 2),
    (0.088, 0, np.pi / 2),
    (0, 0.107, 0),
]
TOOL_M = 0.1034


def forward(q: np.ndarray) -> np.ndarray:
    """Pose (4, 4) of the tool centre point out of the table; the hand is turned by −45°."""
    pose = np.eye(4)
    for (a, d, alpha), theta in zip(DH, [*q, -np.pi / 4], strict=True):
        ct, st, ca, sa = np.cos(theta), np.sin(theta), np.cos(alpha), np.sin(alpha)
        pose = pose @ np.array(
            [
                [ct, -st, 0, a],
                [st * ca, ct * ca, -sa, -d * sa],
                [st * sa, ct * sa, ca, d * ca],
                [0, 0, 0, 1],
            ]
        )
    pose[:3, 3] += TOOL_M * pose[:3, 2]
    return pose


def tool_pose(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    model = PANDA.spec().compile()
    data = mujoco.MjData(model)
    data.qpos[:7] = q
    mujoco.mj_forward(model, data)
    site = data.site(PANDA.frames.ee_site)
    return site.xpos.copy(), site.xmat.reshape(3, 3).copy()


def test_upright_arm_reaches_the_sum_of_its_lengths() -> None:
    pos, _ = tool_pose(np.zeros(7))
    assert pos == pytest.approx([0.088, 0, 0.333 + 0.316 + 0.384 - 0.107 - TOOL_M], abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_forward_kinematics_is_that_of_the_dh_table(seed: int) -> None:
    q = np.random.default_rng(seed).uniform(PANDA.ctrl_low[:7], PANDA.ctrl_high[:7])
    pos, rot = tool_pose(q)
    expected = forward(q)
    assert pos == pytest.approx(expected[:3, 3], abs=1e-9)
    assert rot == pytest.approx(expected[:3, :3], abs=1e-9)


def test_home_points_straight_down() -> None:
    _, rot = tool_pose(PANDA.home_qpos[:7])
    assert rot == pytest.approx(np.diag([1.0, -1.0, -1.0]), abs=1e-12)


def test_joints_follow_targets_at_the_control_rate() -> None:
    model = PANDA.spec().compile()
    data = mujoco.MjData(model)
    data.qpos[:], data.ctrl[:] = PANDA.home_qpos, PANDA.home_ctrl
    speed, late = 1.0, 0.06
    goal = PANDA.home_ctrl.copy()
    for _ in range(8):
        goal[:7] += speed / PANDA.rates.control_hz
        data.ctrl[:] = goal
        mujoco.mj_step(model, data, 10)
    assert np.abs(goal[:7] - data.qpos[:7]).max() < speed * late


def test_fingers_move_together() -> None:
    model = PANDA.spec().compile()
    data = mujoco.MjData(model)
    data.qpos[:], data.ctrl[:] = PANDA.home_qpos, PANDA.home_ctrl
    data.ctrl[7] = 0.01
    for _ in range(100):
        mujoco.mj_step(model, data)
        assert abs(data.qpos[7] - data.qpos[8]) < 1e-4
    assert data.qpos[7] == pytest.approx(0.01, abs=1e-3)


def test_grasped_cube_is_held_and_carried() -> None:
    spec = PANDA.spec()
    cube = spec.worldbody.add_body(name="cube", pos=forward(PANDA.home_qpos[:7])[:3, 3])
    cube.add_freejoint()
    cube.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.02] * 3, mass=0.05)
    model = spec.compile()
    data = mujoco.MjData(model)
    data.qpos[:9], data.ctrl[:] = PANDA.home_qpos, PANDA.home_ctrl
    assert PANDA.gripper
    model.opt.gravity[:], data.ctrl[7] = 0, PANDA.gripper.closed
    mujoco.mj_step(model, data, 60)
    model.opt.gravity[2] = -9.81
    offset = data.body("cube").xpos - data.site("ee_site").xpos
    mujoco.mj_step(model, data, 400)
    assert data.body("cube").xpos - data.site("ee_site").xpos == pytest.approx(offset, abs=1e-3)
    data.ctrl[5] += 0.1
    mujoco.mj_step(model, data, 100)
    assert np.linalg.norm(data.body("cube").xpos - data.site("ee_site").xpos) < 5e-3
