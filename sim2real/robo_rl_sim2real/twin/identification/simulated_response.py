"""Simulates the robot's response to the commands of a recording, faster than real time.

Shapes: T steps, n joints. This module is not deployed: the simulated world needs torch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from robo_rl_sim2real.messages.readings import Values
from robo_rl_sim2real.simulated.world import SimWorld
from robo_rl_sim2real.twin.identification.trajectories import TrajectorySegment

_SETTLE_S = 1.0


class SimulatedResponse(NamedTuple):
    """Positions pos (T, n) at times at_s (T,), on the recording's clock."""

    at_s: Values
    pos: Values


def simulate_response(world: SimWorld, course: TrajectorySegment) -> SimulatedResponse:
    """Return the simulated response to a trajectory's commands, from the real start pose.

    A command takes effect at the nearest step: rounding to the next one would delay the response by
    half a step on average.

    Args:
        world: World of the recorded task; it is reset.
        course: Trajectory with the commands.

    Raises:
        ConfigError: A joint is not commanded in that task.
    """
    world.reset(0)
    world.command(dict(zip(course.joints, course.pos[0], strict=True)))
    for _ in range(round(_SETTLE_S / world.dt_s)):
        world.step()
    at_s = np.arange(course.command_s[0], course.command_s[-1] + world.dt_s, world.dt_s)
    newest = np.searchsorted(course.command_s, at_s + world.dt_s / 2, side="right") - 1
    pos = np.empty((len(at_s), len(course.joints)))
    for i, command in enumerate(newest):
        measured = world.positions()
        pos[i] = [measured[name] for name in course.joints]
        world.command(dict(zip(course.joints, course.commands[command], strict=True)))
        world.step()
    return SimulatedResponse(at_s, pos)
