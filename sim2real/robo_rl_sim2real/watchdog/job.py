"""All that a watchdog is told, once, when it is started.

Shapes: n joints.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from robo_rl.config.models import ConfigModel
from robo_rl.config.registry import Component, component
from robo_rl_sim2real.control.commands.braking import Limits
from robo_rl_sim2real.control.commands.topic import CommandTopic
from robo_rl_sim2real.transport.base import Transport
from robo_rl_sim2real.watchdog.assessment import SilenceLimits


class UnfinishedOutputs(ConfigModel):
    """What a policy process leaves unfinished if it is killed.

    Args:
        health: File that it was to write its health to; empty for none.
        recordings: Folder in which it records; empty for none.
        since_s: Wall clock at its beginning: what is older there is not its own.
    """

    health: str = ""
    recordings: str = ""
    since_s: float = 0.0


class WatchdogJob(ConfigModel):
    """What to watch, and how to stop the robot.

    Args:
        pid: The policy process.
        transport: How the robot is reached.
        state: Topic on which the state is said.
        command_topics: Where commands go.
        limits: Name → (n,), and ``dt_s``, as of ``Limits``.
        command_timeout_s: How late a command may be before velocities are told to be zero.
        hang_timeout_s: How late before the process counts as hanging.
        final_hold_s: How long a robot at rest is told to stay there.
        unfinished: What the watchdog finishes in the place of a process that was killed.
    """

    pid: int
    transport: Annotated[Component[Transport], component("transports")]
    state: str
    command_topics: tuple[CommandTopic, ...]
    limits: dict[str, tuple[float, ...]]
    dt_s: float = Field(gt=0.0)
    command_timeout_s: float = Field(gt=0.0)
    hang_timeout_s: float = Field(gt=0.0)
    final_hold_s: float = Field(ge=0.0)
    unfinished: UnfinishedOutputs = UnfinishedOutputs()

    @property
    def joint_limits(self) -> Limits:
        """The joints' limits."""
        columns = {name: np.array(values) for name, values in self.limits.items()}
        return Limits(**columns, dt_s=self.dt_s)

    @property
    def silence_limits(self) -> SilenceLimits:
        """With a process that runs."""
        return SilenceLimits(self.dt_s + self.command_timeout_s, self.dt_s + self.hang_timeout_s)


def limits_by_name(limits: Limits) -> dict[str, tuple[float, ...]]:
    """Limits as ``WatchdogJob`` has them."""
    names = ("low", "high", "velocity", "acceleration", "jerk")
    return {name: tuple(getattr(limits, name).tolist()) for name in names}
