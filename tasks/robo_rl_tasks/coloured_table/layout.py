"""Cubes and pads on the table, the camera, and where they lie at the start.

Shapes: n worlds, C cubes, P pads. Objects lie in different cells of a grid, so that none overlap.
"""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from robo_rl import Reset, yaw_to_quat
from robo_rl_tasks.coloured_table.goals import CUBES, PADS
from robo_rl_tasks.scene import add_marker, add_object, tabletop

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from robo_rl import Robot

TIMESTEP_S = 0.005
"""Of the physics; the contacts below are stable with it."""

CAMERA = "table"
CAMERA_POS_M, CAMERA_FOVY_DEG = (1.1, 0.0, 0.7), 31.0
CAMERA_AXES = (0.0, 1.0, 0.0, -0.76, 0.0, 0.65)
"""The camera stands opposite the arm, which hides little of the table from there."""

CENTRE_M = (0.5, 0.0)
CELLS = (2, 3)
CELL_M = (0.14, 0.15)
JITTER_M = 0.035
PAD_HALF_M, PAD_HEIGHT_M = 0.04, 1e-3
CUBE_MASS_KG = 0.05
# Friction holds a cube in the fingers, and does not turn a cube over that is pushed at its centre.
GRIP = {"condim": 3, "priority": 2, "friction": [0.6, 0.01, 0.0001], "solref": [0.01, 1.0]}


class Layout(NamedTuple):
    """Poses at the start: cubes (n, C, 7) and pads (n, P, 7), position and quaternion, wxyz."""

    cubes: Tensor
    pads: Tensor


def build_scene(robot: Robot, cube_half_m: float) -> Any:
    """Return the robot, the table, cubes, pads, and a camera opposite the arm."""
    spec = tabletop(robot)
    spec.option.timestep = TIMESTEP_S
    box = [0.0, 0.0, 0.0, cube_half_m, cube_half_m, cube_half_m]
    for colour, rgb in CUBES.items():
        add_object(spec, f"{colour}_cube", [box], CUBE_MASS_KG, rgba=[*rgb, 1.0], **GRIP)
    pad = [0.0, 0.0, 0.0, PAD_HALF_M, PAD_HALF_M, PAD_HEIGHT_M]
    for colour, rgb in PADS.items():
        add_marker(spec, f"{colour}_pad", [pad], [*rgb, 1.0])
    spec.worldbody.add_camera(
        name=CAMERA, pos=CAMERA_POS_M, xyaxes=CAMERA_AXES, fovy=CAMERA_FOVY_DEG
    )
    return spec


def draw_layout(num: int, cube_half_m: float, generator: torch.Generator) -> Layout:
    """Draw cells, places within them, and the yaw of the cubes."""
    import torch

    rows, cols = CELLS
    count = len(CUBES) + len(PADS)
    cell = torch.rand(num, rows * cols, generator=generator).argsort(dim=1)[:, :count]
    grid = torch.stack([cell // cols - (rows - 1) / 2, cell % cols - (cols - 1) / 2], dim=-1)
    jitter = (2 * torch.rand(num, count, 2, generator=generator) - 1) * JITTER_M
    place = torch.tensor(CENTRE_M) + grid * torch.tensor(CELL_M) + jitter
    yaw = (torch.rand(num, count, generator=generator) - 0.5) * (math.pi / 2)
    yaw[:, len(CUBES) :] = 0.0
    height = torch.full((num, count, 1), cube_half_m)
    height[:, len(CUBES) :] = 0.0
    poses = torch.cat([place, height, yaw_to_quat(yaw)], dim=-1)
    return Layout(poses[:, : len(CUBES)], poses[:, len(CUBES) :])


def start_state(arm: Tensor, layout: Layout) -> Reset:
    """Return the start states of arms (n, nq of the robot) and objects at rest."""
    import torch

    cubes = layout.cubes.flatten(1)
    qvel = torch.zeros(len(arm), arm.shape[1] + 6 * layout.cubes.shape[1])
    pads = {f"{colour}_pad": layout.pads[:, i] for i, colour in enumerate(PADS)}
    return Reset(qpos=torch.cat([arm, cubes], dim=-1), qvel=qvel, goal=pads)
