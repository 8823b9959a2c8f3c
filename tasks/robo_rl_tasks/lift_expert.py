"""A scripted demonstrator that grasps a cube from above and lifts it.

Shapes: B envs, n of them. The phases of all envs are one tensor; only inverse kinematics runs env
by env. Imperfection is of two kinds, both scaled by the noise level: the cube is seen in the wrong
place for as long as one attempt lasts, and the joints tremble. A cube that was lost is noticed and
tried again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pydantic import Field

from robo_rl.config import ConfigModel
from robo_rl_tasks.noise import CorrelatedNoise
from robo_rl_tasks.poses import (
    planar_pose,
    quat_conj,
    quat_mul,
    quat_to_yaw,
    rotate_planar,
    wrap_angle,
    yaw_to_quat,
)
from robo_rl_tasks.rewards import distance
from robo_rl_tasks.tracker import Tracker

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from robo_rl.env.base import SimView
    from robo_rl_tasks.lift_cube import LiftCube

PHASES = 4
ABOVE, DOWN, CLOSE, LIFT = range(PHASES)


class LiftExpertConfig(ConfigModel):
    """Settings of ``LiftExpert``.

    Args:
        grasp_quat: Orientation of the end effector that grasps a cube of yaw 0, wxyz.
        grasp_offset_m: End effector minus cube at the grasp, in the end effector's yaw frame, m.
        above_m: Height over the grasp from which the gripper comes down.
        lift_m: Height over the grasp that it goes up to.
        speed_mps: Speed of the end effector.
        yaw_rate: Speed of its turn, rad/s.
        close_s: Time given to the fingers.
        arrived_m: Distance at which a waypoint counts as reached.
        lost_m: Distance of end effector and cube at which a lifted cube counts as lost.
        joint_speed: Share of each joint's maximum velocity that may be used.
        orientation_cost: Weight of a radian against a metre in inverse kinematics.
        misjudged_m: Standard deviation of the cube's seen position at noise 1, per axis.
        misjudged_rad: Standard deviation of its seen yaw at noise 1.
        tremble_rad: Standard deviation of the joints' noise at noise 1.
        tremble_s: Time over which the joints' noise is correlated.
    """

    grasp_quat: tuple[float, float, float, float] = (0.0, 1.0, 0.0, 0.0)
    grasp_offset_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    above_m: float = 0.1
    lift_m: float = 0.12
    speed_mps: float = Field(default=0.25, gt=0)
    yaw_rate: float = Field(default=1.5, gt=0)
    close_s: float = 0.3
    arrived_m: float = 0.02
    lost_m: float = 0.05
    joint_speed: float = Field(default=0.6, gt=0, le=1)
    orientation_cost: float = 0.3
    misjudged_m: float = 0.025
    misjudged_rad: float = 0.4
    tremble_rad: float = 0.03
    tremble_s: float = 0.3


class LiftExpert:
    """Above, down, close, lift.

    Args:
        task: The task that it demonstrates.
        num_envs: B.
        generator: Where its noise comes from.
        noise: 0 for its best, 1 for mostly failing.
    """

    def __init__(
        self, task: LiftCube, num_envs: int, generator: torch.Generator, noise: float
    ) -> None:
        import torch

        self._cfg, self._task = task.cfg.expert, task
        self._noise, self._generator = noise, generator
        cfg = self._cfg
        self._tracker = Tracker(
            task.robot,
            num_envs,
            task.dt_s,
            speed=cfg.joint_speed,
            orientation_cost=cfg.orientation_cost,
        )
        size = task.act_spec.size
        self._tremble = CorrelatedNoise(num_envs, size, task.dt_s, cfg.tremble_s, generator)
        self._fresh = torch.ones(num_envs, dtype=torch.bool)
        self._phase, self._steps = torch.zeros(2, num_envs, dtype=torch.long)
        self._pos, self._yaw = torch.zeros(num_envs, 3), torch.zeros(num_envs)
        self._misjudged = torch.zeros(num_envs, 3)

    def reset(self, ids: Tensor) -> None:
        """The envs ids (n,) begin a new episode."""
        self._fresh[ids] = True

    def act(self, view: SimView) -> Tensor:
        """The demonstrated joint targets (B, A)."""
        self._begin(view)
        cube = planar_pose(view.sensor("cube_pos"), view.sensor("cube_quat")).float()
        cube = cube + self._misjudged
        self._switch(view, self._waypoint(cube))
        self._approach(self._waypoint(cube), cube[:, 2])
        return self._command()

    def _begin(self, view: SimView) -> None:
        ids = self._fresh.nonzero().squeeze(-1)
        self._fresh[:] = False
        if not len(ids):
            return
        quat = view.sensor("ee_quat")[ids].float()
        self._tracker.start(ids, self._task.observe(view)["joint_pos"][ids])
        self._pos[ids] = view.sensor("ee_pos")[ids].float()
        self._yaw[ids] = quat_to_yaw(quat_mul(quat, quat_conj(self._grasp_quat(len(ids)))))
        self._phase[ids] = self._steps[ids] = 0
        self._tremble.reset(ids)
        self._misjudge(ids)

    def _misjudge(self, ids: Tensor) -> None:
        import torch

        cfg = self._cfg
        scale = torch.tensor([cfg.misjudged_m, cfg.misjudged_m, cfg.misjudged_rad])
        drawn = torch.randn(len(ids), 3, generator=self._generator)
        self._misjudged[ids] = self._noise * scale * drawn

    def _waypoint(self, cube: Tensor) -> Tensor:
        """Where the end effector goes in the present phase, (B, 3)."""
        import torch

        cfg = self._cfg
        offset = torch.tensor(cfg.grasp_offset_m)
        over = cube[:, :2] + rotate_planar(self._yaw, offset[:2].expand(len(cube), 2))
        planar = torch.where((self._phase <= DOWN).unsqueeze(-1), over, self._pos[:, :2])
        heights = torch.tensor([cfg.above_m, 0.0, 0.0, cfg.lift_m])
        height = heights[self._phase] + self._task.cfg.cube_half_m + offset[2]
        return torch.cat([planar, height.unsqueeze(-1)], dim=-1)

    def _switch(self, view: SimView, waypoint: Tensor) -> None:
        """On to the next phase where this one is done; from a lost cube back to the first."""
        import torch

        ee_pos, cfg = view.sensor("ee_pos"), self._cfg
        arrived = (distance(self._pos, waypoint) < 1e-3) & (
            distance(ee_pos, waypoint) < cfg.arrived_m
        )
        closed = self._steps * self._task.dt_s >= cfg.close_s
        lost = distance(ee_pos, view.sensor("cube_pos")) > cfg.lost_m
        done = torch.where(
            self._phase < CLOSE, arrived, torch.where(self._phase == CLOSE, closed, lost)
        )
        self._steps = torch.where(done, 0, self._steps + 1)
        self._phase = (self._phase + done) % PHASES
        self._misjudge((done & (self._phase == ABOVE)).nonzero().squeeze(-1))

    def _approach(self, waypoint: Tensor, cube_yaw: Tensor) -> None:
        """Move the set point at its speed; a cube looks the same after a quarter turn."""
        cfg, dt = self._cfg, self._task.dt_s
        way = waypoint - self._pos
        reach = way.norm(dim=-1, keepdim=True).clamp(min=1e-9)
        self._pos = self._pos + way * (cfg.speed_mps * dt / reach).clamp(max=1)
        turn = wrap_angle(cube_yaw - self._yaw, math.pi / 2) * (self._phase <= DOWN)
        self._yaw = self._yaw + turn.clamp(-cfg.yaw_rate * dt, cfg.yaw_rate * dt)

    def _command(self) -> Tensor:
        import torch

        task, gripper = self._task, self._task.gripper
        quat = quat_mul(yaw_to_quat(self._yaw), self._grasp_quat(len(self._yaw)))
        grip = torch.where(self._phase < CLOSE, gripper.open, gripper.closed)
        act = task.joint_targets(self._tracker.follow(self._pos, quat), grip)
        tremble = self._noise * self._cfg.tremble_rad * self._tremble.sample()
        act = act + tremble * task.arm_mask
        return act.clamp(torch.tensor(task.act_spec.low), torch.tensor(task.act_spec.high))

    def _grasp_quat(self, num: int) -> Tensor:
        import torch

        return torch.tensor(self._cfg.grasp_quat).expand(num, 4)
