"""All that a watchdog is told, once, when it is started.

Shapes: n joints.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from robo_rl.config.models import ConfigModel
from robo_rl.config.registry import Component, component
from robo_rl_sim2real.control.braking import Limits
from robo_rl_sim2real.control.command_topic import Outlet
from robo_rl_sim2real.watchdog.judge import Patience


class Estate(ConfigModel):
    """What a policy process leaves unfinished if it is killed.

    Args:
        health: File that it was to write its health to; empty for none.
        recordings: Folder in which it records; empty for none.
        since_s: Wall clock at its beginning: what is older there is not its own.
    """

    health: str = ""
    recordings: str = ""
    since_s: float = 0.0


class Orders(ConfigModel):
    """What to watch, and how to stop the robot.

    Args:
        pid: The policy process.
        transport: How the robot is reached.
        state: Topic on which the state is said.
        outlets: Where commands go.
        limits: Name → (n,), and ``dt_s``, as of ``Limits``.
        grace_s: How late a command may be before velocities are told to be zero.
        hang_s: How late before the process counts as hanging.
        hold_s: How long a robot at rest is told to stay there.
        estate: What the watchdog finishes in the place of a process that was killed.
    """

    pid: int
    transport: Annotated[Component, component("transports")]
    state: str
    outlets: tuple[Outlet, ...]
    limits: dict[str, tuple[float, ...]]
    dt_s: float = Field(gt=0.0)
    grace_s: float = Field(gt=0.0)
    hang_s: float = Field(gt=0.0)
    hold_s: float = Field(ge=0.0)
    estate: Estate = Estate()

    @property
    def within(self) -> Limits:
        """The joints' limits."""
        columns = {name: np.array(values) for name, values in self.limits.items()}
        return Limits(**columns, dt_s=self.dt_s)

    @property
    def patience(self) -> Patience:
        """With a process that runs."""
        return Patience(self.dt_s + self.grace_s, self.dt_s + self.hang_s)


def columns(limits: Limits) -> dict[str, tuple[float, ...]]:
    """Limits as ``Orders`` has them."""
    names = ("low", "high", "velocity", "acceleration", "jerk")
    return {name: tuple(getattr(limits, name).tolist()) for name in names}
