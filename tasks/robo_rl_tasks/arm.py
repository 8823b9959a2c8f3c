"""An arm on a table: what tasks share about actions, observations and reset.

Shapes: B envs, A actuators, J arm joints (the actuators but the gripper).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robo_rl.errors import ConfigError
from robo_rl.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl_tasks.poses import quat_to_rot6d

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch import Tensor

    from robo_rl.env.base import SimView
    from robo_rl.robot import Joint, Robot


def arm_indices(robot: Robot) -> list[int]:
    """Indices in qpos of the actuated joints but the gripper, in control order."""
    return [robot.joint_names.index(joint.name) for joint in arm_joints(robot)]


def arm_joints(robot: Robot) -> list[Joint]:
    """The actuated joints but the gripper, in control order."""
    gripper = robot.gripper.actuator if robot.gripper else None
    pairs = zip(robot.actuated, robot.actuator_names, strict=True)
    return [joint for joint, actuator in pairs if actuator != gripper]


class ArmTask:
    """Joint targets in; joints, gripper and end effector out. Tasks add object and goal.

    Args:
        robot: A robot with a gripper.
        episode_s: Time limit of an episode.
        start: (J,) arm joints at reset, rad; empty for the robot's home.
        start_noise: Standard deviation of the arm joints about it at reset, rad.

    Raises:
        ConfigError: The robot has no gripper, or ``start`` is of another length.
    """

    open_loop = True

    def __init__(
        self, robot: Robot, episode_s: float, start: Sequence[float], start_noise: float
    ) -> None:
        if robot.gripper is None:
            raise ConfigError(f"robot '{robot.name}' has no gripper", hint="name one that has")
        self.robot, self.gripper, self.episode_s = robot, robot.gripper, episode_s
        self.dt_s = 1.0 / self.robot.rates.control_hz
        self._arm = arm_joints(self.robot)
        self._fingers = [joint for joint in self.robot.actuated if joint not in self._arm]
        self.act_spec = act_spec(self.robot)
        self.arm_mask, self._columns = _layout(self.robot)
        self._start_qpos, self._start_noise = start_qpos(robot, start), start_noise
        self.obs_spec = ObsSpec(items=self._arm_items() | self._task_items())

    def control(self, view: SimView, act: Tensor) -> Tensor:
        """Actions are the controls: absolute joint targets."""
        return act

    def observe(self, view: SimView) -> dict[str, Tensor]:
        """Arm, gripper, end effector, and what the task adds; all sensors of one moment."""
        return self._observe_arm(view) | self._observe_task(view)

    def _task_items(self) -> dict[str, TensorSpec]:
        raise NotImplementedError

    def _observe_task(self, view: SimView) -> dict[str, Tensor]:
        raise NotImplementedError

    def _arm_items(self) -> dict[str, TensorSpec]:
        names = tuple(joint.name for joint in self._arm)
        fingers = tuple(joint.name for joint in self._fingers)
        return {
            "joint_pos": TensorSpec(shape=(len(names),), unit="rad", names=names),
            "joint_vel": TensorSpec(shape=(len(names),), unit="rad/s", names=names),
            "gripper": TensorSpec(shape=(len(fingers),), unit=self._fingers[0].unit, names=fingers),
            "ee_pos": TensorSpec(shape=(3,), unit="m", frame="world"),
            "ee_rot6d": TensorSpec(shape=(6,), frame="world"),
        }

    def _observe_arm(self, view: SimView) -> dict[str, Tensor]:
        return {
            "joint_pos": view.sensor(*(f"{joint.name}_pos" for joint in self._arm)),
            "joint_vel": view.sensor(*(f"{joint.name}_vel" for joint in self._arm)),
            "gripper": view.sensor(*(f"{joint.name}_pos" for joint in self._fingers)),
            "ee_pos": view.sensor("ee_pos"),
            "ee_rot6d": quat_to_rot6d(view.sensor("ee_quat")),
        }

    def joint_targets(self, arm: Tensor, gripper: Tensor) -> Tensor:
        """An action (B, A) out of arm targets (B, J) and gripper targets (B,)."""
        import torch

        return torch.where(self.arm_mask, arm[:, self._columns], gripper.unsqueeze(-1))

    def _start(self, num: int, generator: torch.Generator) -> Tensor:
        """Draw joint positions (num, nq of the robot) about the start, within limits."""
        import torch

        qpos = self._start_qpos.repeat(num, 1)
        low = torch.tensor([joint.low for joint in self._arm])
        high = torch.tensor([joint.high for joint in self._arm])
        columns = arm_indices(self.robot)
        drawn = torch.randn(num, len(columns), generator=generator) * self._start_noise
        qpos[:, columns] = (qpos[:, columns] + drawn).clamp(low, high)
        return qpos


def start_qpos(robot: Robot, start: Sequence[float]) -> Tensor:
    """All joints (nq,) at home, the arm's J joints at start where it is given.

    Raises:
        ConfigError: start is neither empty nor of length J.
    """
    import torch

    qpos, columns = torch.tensor(robot.home, dtype=torch.float32), arm_indices(robot)
    if len(start) not in (0, len(columns)):
        raise ConfigError("start", expected=f"{len(columns)} joints", found=len(start))
    if start:
        qpos[columns] = torch.tensor(start, dtype=torch.float32)
    return qpos


def _layout(robot: Robot) -> tuple[Tensor, Tensor]:
    """Which actuators (A,) belong to the arm, and which arm joint each of them is (0 elsewhere)."""
    import torch

    arm = arm_joints(robot)
    mask = torch.tensor([joint in arm for joint in robot.actuated])
    columns = [arm.index(joint) if joint in arm else 0 for joint in robot.actuated]
    return mask, torch.tensor(columns)


def act_spec(robot: Robot) -> ActSpec:
    """Absolute targets of all actuators within the robot's limits, in control order."""
    return ActSpec(
        shape=(len(robot.actuated),),
        unit=",".join(joint.unit for joint in robot.actuated),
        names=robot.actuator_names,
        low=tuple(robot.ctrl_low.tolist()),
        high=tuple(robot.ctrl_high.tolist()),
        rate_hz=robot.rates.control_hz,
    )
