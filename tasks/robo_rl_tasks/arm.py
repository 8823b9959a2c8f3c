"""An arm on a table: the actions, observations and resets that tasks share.

Shapes: B envs, A act_dim, J arm joints (actuated joints except the gripper), M arm targets: J, or
the 6 of a pose.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Literal

from robo_rl import ActSpec, ConfigError, ObsSpec, TensorSpec, quat_to_rot6d
from robo_rl_tasks.deltas import Deltas, HandDeltas, JointDeltas, delta_spec
from robo_rl_tasks.device_copies import columns
from robo_rl_tasks.kinematics.cartesian_controller import CartesianController
from robo_rl_tasks.kinematics.chain import KinematicChain
from robo_rl_tasks.kinematics.joints import arm_indices, arm_joints

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch import Tensor

    from robo_rl import CommandAxis, Reset, Robot, SimView


Actions = Literal["joints", "joints_delta", "pose", "pose_delta"]
"""Actions of the arm: joint targets or poses of the end effector, or changes of the last one."""


class ArmTask:
    """Base of arm tasks: targets as actions; joints, gripper and end effector as observations.

    Subclasses add an object and a goal. The gripper's action is a target in every action space.
    Changes of the arm are limited to the largest velocity of each joint or axis.

    Args:
        robot: A robot with a gripper.
        episode_s: Time limit of an episode.
        start: (J,) arm joints at reset, rad; empty for the robot's home.
        start_noise: Standard deviation of the arm joints about it at reset, rad.
        holds_m: Width to which the gripper stays closed, without being an action or an
            observation; None where the task moves it.
        actions: Joint targets, or poses of the end effector for a Cartesian controller, or changes
            of either, see ``robo_rl_tasks.deltas``.

    Raises:
        ConfigError: The robot has no gripper, no end effector axes for pose actions, or ``start``
            is of another length.
    """

    def __init__(
        self,
        robot: Robot,
        episode_s: float,
        start: Sequence[float],
        start_noise: float,
        *,
        holds_m: float | None = None,
        actions: Actions = "joints",
    ) -> None:

        if robot.gripper is None:
            raise ConfigError(f"robot '{robot.name}' has no gripper", hint="name one that has")
        self.robot, self.gripper, self.episode_s = robot, robot.gripper, episode_s
        self.dt_s = 1.0 / self.robot.rates.control_hz
        self.arm = arm_joints(robot)
        self._finger = next(joint for joint in robot.actuated_joints if joint not in self.arm)
        self._held = None if holds_m is None else self.gripper_pos_for_width(holds_m)
        by_hand = actions in ("pose", "pose_delta")
        self.hand = CartesianController(robot, self.arm, self.dt_s) if by_hand else None
        self.open_loop = self.hand is None
        acted_on = self._acted_on()
        moves_arm = [axis is not self._finger for _, axis in acted_on]
        self._moved = columns(moves_arm)
        self._absolute_spec = act_spec(robot, acted_on)
        self._deltas = self._make_deltas() if actions.endswith("_delta") else None
        self.act_spec = (
            self._absolute_spec
            if self._deltas is None
            else delta_spec(self._absolute_spec, acted_on, moves_arm)
        )
        self._arm_columns = columns([joint in self.arm for joint in robot.actuated_joints])
        self._start_qpos, self._start_noise = self._start_pose(start), start_noise
        self.obs_spec = ObsSpec(items=self._arm_items() | self._task_items())

    def control(self, view: SimView, act: Tensor) -> Tensor:
        """Convert actions to controls; a gripper without an action keeps its width."""
        act = self._targets(view, act)
        if self.hand is not None:
            arm = self.hand.targets(view.qpos, act[:, : len(self.hand.axes)])
            return self._with_gripper(
                arm, act[:, -1] if self._held is None else self._held_like(act)
            )
        return act if self._held is None else self._with_gripper(act, self._held_like(act))

    def action(self, view: SimView, arm: Tensor, gripper: Tensor) -> Tensor:
        """Return the action (B, A) for arm targets (B, M) and, if used, gripper targets (B,).

        A delta action is the change from the last command, which may exceed its limits.
        """
        if self._deltas is not None:
            arm = self._deltas.change(self._last(view, arm), arm)
        if self._held is not None:
            return arm
        if self.hand is not None:
            import torch

            return torch.cat([arm, gripper.unsqueeze(-1)], dim=-1)
        return self._with_gripper(arm, gripper)

    def commanded_hand_pos(self, act: Tensor) -> Tensor:
        """Return the position (B, 3) in m that the actions send the hand to; see CommandsHand."""
        if self.hand is not None:
            return act[:, :3]
        chain = KinematicChain(self.robot, tuple(joint.name for joint in self.arm))
        arm = act if self._held is not None else act[:, self._arm_columns.on(act.device)]
        return chain.forward(arm).pos

    def start_ctrl(self, start: Reset) -> Tensor:
        """Return the control (n, nu) that rests at start states, see ``DeltaTask``."""
        columns = [self.robot.joint_names.index(joint.name) for joint in self.robot.actuated_joints]
        return start.qpos[:, columns]

    def absolute(self) -> ArmTask:
        """Return the same task with targets as actions, see ``DeltaTask``."""
        if self._deltas is None:
            return self
        other = copy.copy(self)
        other._deltas, other.act_spec = None, self._absolute_spec
        return other

    def _targets(self, view: SimView, act: Tensor) -> Tensor:
        """Return the targets (B, A) of actions (B, A)."""
        if self._deltas is None:
            return act
        targets, moves = act.clone(), self._moved.on(act.device)
        targets[:, moves] = self._deltas.moved(self._last(view, act), act[:, moves])
        return targets

    def _last(self, view: SimView, like: Tensor) -> Tensor:
        """Return the last target (B, M) of the arm."""
        assert self._deltas is not None
        arm = view.ctrl[:, self._arm_columns.on(view.ctrl.device)]
        return self._deltas.last(arm.to(like.dtype))

    def _make_deltas(self) -> Deltas:
        return JointDeltas(self.arm) if self.hand is None else HandDeltas(self.hand)

    def _acted_on(self) -> Sequence[tuple[str, CommandAxis]]:
        """Return the names and limits of the actions."""
        if self.hand is None:
            joints = self.robot.actuated_joints if self._held is None else self.arm
            return [(joint.actuator or joint.name, joint) for joint in joints]
        finger = self._finger
        gripper = [(finger.actuator or finger.name, finger)] if self._held is None else []
        return [(axis.name, axis) for axis in self.hand.axes] + gripper

    def gripper_pos_for_width(self, width_m: float) -> float:
        """Return the gripper position at which it holds an object of that width."""
        span = self.gripper.open - self.gripper.closed
        return self.gripper.closed + span * width_m / self.gripper.max_width

    def observe(self, view: SimView) -> dict[str, Tensor]:
        """Return arm, gripper, end effector and the task's own items, from sensors of one time."""
        return self._observe_arm(view) | self._observe_task(view)

    def _task_items(self) -> dict[str, TensorSpec]:
        raise NotImplementedError

    def _observe_task(self, view: SimView) -> dict[str, Tensor]:
        raise NotImplementedError

    def _arm_items(self) -> dict[str, TensorSpec]:
        names, finger = tuple(joint.name for joint in self.arm), self._finger
        gripper = TensorSpec(shape=(1,), unit=finger.unit, names=(finger.name,))
        return {
            "joint_pos": TensorSpec(shape=(len(names),), unit="rad", names=names),
            "joint_vel": TensorSpec(shape=(len(names),), unit="rad/s", names=names),
            **({"gripper": gripper} if self._held is None else {}),
            "ee_pos": TensorSpec(shape=(3,), unit="m", frame="world"),
            "ee_rot6d": TensorSpec(shape=(6,), frame="world"),
        }

    def _observe_arm(self, view: SimView) -> dict[str, Tensor]:
        gripper = {"gripper": self._gripper_pos(view)} if self._held is None else {}
        return {
            "joint_pos": view.sensor(*(f"{joint.name}_pos" for joint in self.arm)),
            "joint_vel": view.sensor(*(f"{joint.name}_vel" for joint in self.arm)),
            **gripper,
            "ee_pos": view.sensor("ee_pos"),
            "ee_rot6d": quat_to_rot6d(view.sensor("ee_quat")),
        }

    def _gripper_pos(self, view: SimView) -> Tensor:
        """Return the measured gripper position (B, 1)."""
        return view.sensor(f"{self._finger.name}_pos")

    def _with_gripper(self, arm: Tensor, gripper: Tensor) -> Tensor:
        """Return controls (B, nu) from arm targets (B, J) and gripper targets (B,) or ()."""
        num = len(self.robot.actuated_joints)
        ctrl = gripper.unsqueeze(-1).expand(len(arm), num).clone()
        ctrl[:, self._arm_columns.on(arm.device)] = arm
        return ctrl

    def _held_like(self, act: Tensor) -> Tensor:
        """Return the gripper position () that the task holds."""
        return act.new_full((), self._held or 0.0)

    def _start_pose(self, start: Sequence[float]) -> Tensor:
        """Return all joints (nq,) at home, except the arm at start and the gripper as held."""
        import torch

        robot, finger = self.robot, self._finger.name
        qpos, columns = torch.tensor(robot.home_qpos, dtype=torch.float32), arm_indices(robot)
        if len(start) not in (0, len(columns)):
            raise ConfigError(
                "start_joint_pos", expected=f"{len(columns)} joints", found=len(start)
            )
        if start:
            qpos[columns] = torch.tensor(start, dtype=torch.float32)
        if self._held is not None:
            qpos[[finger in (joint.name, joint.mimic) for joint in robot.joints]] = self._held
        return qpos

    def _start(self, num: int, generator: torch.Generator) -> Tensor:
        """Draw joint positions (num, nq of the robot) about the start, within limits."""
        import torch

        qpos = self._start_qpos.repeat(num, 1)
        low = torch.tensor([joint.low for joint in self.arm])
        high = torch.tensor([joint.high for joint in self.arm])
        columns = arm_indices(self.robot)
        drawn = torch.randn(num, len(columns), generator=generator) * self._start_noise
        qpos[:, columns] = (qpos[:, columns] + drawn).clamp(low, high)
        return qpos


def act_spec(robot: Robot, acted_on: Sequence[tuple[str, CommandAxis]]) -> ActSpec:
    """Return the spec of absolute targets by name, with their limits."""
    names, axes = zip(*acted_on, strict=True)
    return ActSpec(
        shape=(len(names),),
        unit=",".join(axis.unit for axis in axes),
        names=names,
        low=tuple(axis.low for axis in axes),
        high=tuple(axis.high for axis in axes),
        rate_hz=robot.rates.control_hz,
    )
