"""A scripted demonstrator of all skills on the table.

Shapes: B envs. Every skill has the same four phases: above, down, close, and the rest: to lift, to
push, or to stay. The fingers close around a cube that is pushed, so that it does not slip aside.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from pydantic import Field

from robo_rl_tasks.coloured_table import skills
from robo_rl_tasks.coloured_table.goals import GOAL, LIFT, PUSH, REACH
from robo_rl_tasks.coloured_table.waypoints import (
    ABOVE,
    CLOSE,
    DOWN,
    REST,
    Seen,
    Sizes,
    waypoint,
)
from robo_rl_tasks.phased_expert import PhasedExpert, PhasedExpertConfig
from robo_rl_tasks.poses import planar_pose
from robo_rl_tasks.rewards import distance

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from robo_rl import SimView
    from robo_rl_tasks.arm import ArmTask


class TableExpertConfig(PhasedExpertConfig, Sizes):
    """Settings of ``TableExpert`` besides those of ``PhasedExpertConfig`` and ``Sizes``.

    Args:
        gripper_close_s: Time for the fingers to close.
        drop_distance_m: Distance of hand and cube at which a held cube counts as lost.
        push_mps: Speed of a push.
    """

    gripper_close_s: float = Field(default=0.3, gt=0)
    drop_distance_m: float = Field(default=0.05, gt=0)
    push_mps: float = Field(default=0.15, gt=0)


class TableExpert(PhasedExpert):
    """A demonstrator that reaches, lifts, pushes and presses.

    Args:
        task: The demonstrated task.
        look: Returns what the goals of a view are about.
        cfg: Settings.
        half_m: Half the edge of a cube.
        num_envs: B.
        generator: Source of the noise.
        noise: Noise level; best at 0, mostly failing at 1.
    """

    phases = 4

    def __init__(
        self,
        task: ArmTask,
        look: Callable[[SimView], skills.Scene],
        cfg: TableExpertConfig,
        half_m: float,
        num_envs: int,
        generator: torch.Generator,
        noise: float,
    ) -> None:
        super().__init__(task, cfg, num_envs, generator, noise)
        self._task, self._cfg, self._half_m, self._scene = task, cfg, half_m, look

    def _begin(self, view: SimView, ids: Tensor) -> None:
        super()._begin(view, ids)
        self._misjudge(ids)

    def _decide(self, view: SimView) -> Tensor:
        import torch

        seen = self._look(view)
        self._switch(view, seen)
        pushing = (seen.skill == PUSH) & (self._phase == REST)
        speed = torch.where(pushing, self._cfg.push_mps, self._cfg.speed_mps)
        self._move(self._waypoint(seen), speed[:, None])
        self._turn(*self._facing(seen))
        lets_go = (seen.skill == REACH) | (_holds(seen) & (self._phase < CLOSE))
        return torch.where(lets_go, self._task.gripper.open, self._task.gripper.closed)

    def _look(self, view: SimView) -> Seen:
        scene = self._scene(view)
        quats = skills.cube_quats(view)
        quat = skills.named(quats, view.goal[GOAL][:, 1])
        cube = planar_pose(scene.cube, quat).float() + self._misjudged
        return Seen(scene.skill, cube, scene.pad.float())

    def _waypoint(self, seen: Seen) -> Tensor:
        return waypoint(seen, self._phase, self._hand_xy, self._cfg, self._half_m)

    @property
    def _hand_xy(self) -> Tensor:
        return self._pos[:, :2]

    def _facing(self, seen: Seen) -> tuple[Tensor, Tensor]:
        """Return the yaw (B,) to turn to, and the turn (B,) after which a hand does the same."""
        import torch

        aligns = _holds(seen) & (self._phase <= DOWN)
        yaw = torch.where(aligns, seen.cube[:, 2], self._yaw)
        return yaw, torch.where(aligns, math.pi / 2, 2 * math.pi)

    def _switch(self, view: SimView, seen: Seen) -> None:
        """Advance where the phase is done; return to the first phase where the cube is lost."""
        import torch

        closed = self._steps * self._task.dt_s >= self._cfg.gripper_close_s
        ready = torch.where(_holds(seen), closed, True)
        done = torch.where(self._phase < CLOSE, self._arrived(view, self._waypoint(seen)), ready)
        done = torch.where(self._phase == REST, self._is_lost(view) & _holds(seen), done)
        self._advance(done)
        self._misjudge((done & (self._phase == ABOVE)).nonzero().squeeze(-1))

    def _is_lost(self, view: SimView) -> Tensor:
        """Return whether the cube has left the fingers."""
        scene = self._scene(view)
        return distance(scene.hand, scene.cube) > self._cfg.drop_distance_m


def _holds(seen: Seen) -> Tensor:
    """Return whether the skill takes a cube between the fingers, (B,) bool."""
    return (seen.skill == LIFT) | (seen.skill == PUSH)
