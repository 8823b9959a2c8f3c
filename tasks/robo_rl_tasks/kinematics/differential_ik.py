"""Differential inverse kinematics with mink: joint targets that follow an end effector path.

Shapes: B envs, n of them, J arm joints. The inverse kinematics starts from the *commanded* arm, not
the measured one, so neither sensor lag nor a soft controller feeds back into the targets. One mink
configuration serves all envs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robo_rl_tasks.kinematics.joints import arm_indices, arm_joints

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from robo_rl import Robot

    Array = NDArray[np.float64]

SOLVER = "daqp"


class DifferentialIk:
    """The commanded arm of B envs.

    Args:
        robot: The robot; its base has the pose of the robot's own model.
        num_envs: B.
        dt_s: Duration of one ``step``.
        speed: Fraction of each joint's maximum velocity that may be used.
        orientation_cost: Weight of a radian against a metre.
    """

    def __init__(
        self, robot: Robot, num_envs: int, dt_s: float, *, speed: float, orientation_cost: float
    ) -> None:
        import mink
        import numpy as np

        model = robot.spec().compile()
        self._dt_s, self._arm = dt_s, arm_indices(robot)
        self._range = np.array([(joint.low, joint.high) for joint in arm_joints(robot)]).T
        self._configuration = mink.Configuration(model)
        self._frame = mink.FrameTask(
            robot.frames.ee_site, "site", 1.0, orientation_cost, lm_damping=1e-4
        )
        posture = mink.PostureTask(model, cost=1e-4)
        posture.set_target(robot.home_qpos)
        self._tasks = [self._frame, posture]
        velocities = {joint.name: speed * joint.max_velocity for joint in robot.joints}
        self._limits = [mink.ConfigurationLimit(model), mink.VelocityLimit(model, velocities)]
        self._qpos = np.tile(robot.home_qpos, (num_envs, 1))

    def start(self, ids: Tensor, joint_pos: Tensor) -> None:
        """Put the commanded arms of envs ids (n,) at joint_pos (n, J)."""
        import numpy as np

        # A joint at its stop may measure beyond its limit, where no velocity is allowed.
        within = np.clip(joint_pos.numpy(), *self._range)
        self._qpos[ids.numpy()[:, None], self._arm] = within

    def step(self, pos: Tensor, quat: Tensor) -> Tensor:
        """Move every commanded arm towards an end effector pose for one step.

        Args:
            pos: (B, 3) position in the world, m.
            quat: (B, 4) orientation, wxyz.

        Returns:
            (B, J) float32 joint targets.
        """
        import numpy as np
        import torch

        poses = np.concatenate([quat.double().numpy(), pos.double().numpy()], axis=1)
        for qpos, pose in zip(self._qpos, poses, strict=True):
            qpos[:] = self._solve(qpos, pose)
        return torch.as_tensor(self._qpos[:, self._arm], dtype=torch.float32)

    def _solve(self, qpos: Array, pose: Array) -> Array:
        import mink

        self._configuration.update(qpos)
        self._frame.set_target(mink.SE3(wxyz_xyz=pose))
        vel = mink.solve_ik(
            self._configuration, self._tasks, self._dt_s, SOLVER, limits=self._limits
        )
        return self._configuration.integrate(vel, self._dt_s)
