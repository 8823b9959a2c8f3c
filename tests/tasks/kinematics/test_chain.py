"""Places and Jacobians beside MuJoCo's."""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import mujoco
import numpy as np
import pytest
import torch

from robo_rl.api.robot import Robot
from robo_rl.config.registry import load
from robo_rl_tasks.kinematics.chain import KinematicChain
from robo_rl_tasks.kinematics.joints import arm_joints


@pytest.mark.parametrize("name", ["panda", "so101"])
def test_end_effector_and_jacobian_are_those_of_the_simulator(name: str, generator):
    robot = load("robots", name)
    joints = arm_joints(robot)
    names = tuple(joint.name for joint in joints)
    low, high = (torch.tensor([getattr(j, end) for j in joints]) for end in ("low", "high"))
    qpos = low + (high - low) * torch.rand(20, len(joints), generator=generator)
    placed = KinematicChain(robot, names).forward(qpos)
    model = robot.spec().compile()
    data, columns = mujoco.MjData(model), [model.joint(n).dofadr[0] for n in names]
    for row in range(len(qpos)):
        for column, joint in enumerate(names):
            data.joint(joint).qpos[0] = qpos[row, column]
        mujoco.mj_forward(model, data)
        site, jac = data.site(robot.frames.ee_site), np.zeros((6, model.nv))
        mujoco.mj_jacSite(model, data, jac[:3], jac[3:], site.id)
        np.testing.assert_allclose(placed.pos[row], site.xpos, atol=2e-6)
        np.testing.assert_allclose(placed.rot[row], site.xmat.reshape(3, 3), atol=2e-6)
        np.testing.assert_allclose(placed.jacobian[row], jac[:, columns], atol=3e-6)


def test_a_joint_that_slides_carries_the_end_effector_along():
    """A lift that stands aslant, and an elbow on it."""
    file = """
        <mujoco><worldbody><body pos="0.1 0 0.2" euler="0 30 0">
          <joint name="lift" type="slide" axis="0 0 1"/><geom size="0.1"/>
          <body pos="0 0 0.3"><joint name="elbow" axis="0 1 0"/><geom size="0.1"/>
            <site name="ee" pos="0.4 0 0"/></body>
        </body></worldbody></mujoco>"""
    robot = SimpleNamespace(
        spec=lambda: mujoco.MjSpec.from_string(file), frames=SimpleNamespace(ee_site="ee")
    )
    placed = KinematicChain(cast(Robot, robot), ("lift", "elbow")).forward(
        torch.tensor([[0.5, 0.7]])
    )
    model = mujoco.MjModel.from_xml_string(file)
    data, jac = mujoco.MjData(model), np.zeros((6, 2))
    data.qpos[:] = 0.5, 0.7
    mujoco.mj_forward(model, data)
    mujoco.mj_jacSite(model, data, jac[:3], jac[3:], data.site("ee").id)
    np.testing.assert_allclose(placed.pos[0], data.site("ee").xpos, atol=1e-6)
    np.testing.assert_allclose(placed.jacobian[0], jac, atol=1e-6)
