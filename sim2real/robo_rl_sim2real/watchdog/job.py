"""The job description that a watchdog receives once, at its start.

Shapes: n joints.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from robo_rl.config.component import Component, component
from robo_rl.config.models import ConfigModel
from robo_rl_sim2real.control.commands.braking import Limits
from robo_rl_sim2real.control.commands.topic import CommandTopic
from robo_rl_sim2real.transport.base import Transport
from robo_rl_sim2real.watchdog.assessment import SilenceLimits


class UnfinishedOutputs(ConfigModel):
    """Outputs that a killed policy process leaves unfinished.

    Args:
        health: File for its health; empty for none.
        recordings: Folder of its recordings; empty for none.
        since_s: Wall-clock time of its start; older recordings are not its own.
    """

    health: str = ""
    recordings: str = ""
    since_s: float = 0.0


class WatchdogJob(ConfigModel):
    """What to watch, and how to stop the robot.

    Args:
        pid: Policy process.
        transport: Transport to the robot.
        state: Topic on which the state is published.
        command_topics: Topics of commands.
        limits: Name → (n,) limits, and ``dt_s``, as in ``Limits``.
        command_timeout_s: Delay of a command beyond which zero velocities are commanded.
        hang_timeout_s: Delay beyond which the process counts as hanging.
        final_hold_s: Duration of the hold at rest.
        unfinished: Outputs that the watchdog finishes for a killed process.
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
        """Limits of the joints."""
        columns = {name: np.array(values) for name, values in self.limits.items()}
        return Limits(**columns, dt_s=self.dt_s)

    @property
    def silence_limits(self) -> SilenceLimits:
        """Time limits for a running process."""
        return SilenceLimits(self.dt_s + self.command_timeout_s, self.dt_s + self.hang_timeout_s)


def limits_by_name(limits: Limits) -> dict[str, tuple[float, ...]]:
    """Return limits in the format of ``WatchdogJob``."""
    names = ("low", "high", "velocity", "acceleration", "jerk")
    return {name: tuple(getattr(limits, name).tolist()) for name in names}
