"""Where commands go, and how they are written there.

Shapes: n joints, in the order of the contract.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from robo_rl_sim2real.messages import Kind
from robo_rl_sim2real.readings import Reading, Values


class Outlet(NamedTuple):
    """Where commands go.

    Args:
        topic: On which topic.
        kind: By which interface.
        joints: (n,) names, in the controller's order.
        order: (n,) where each number of a message comes from among those of a command.
        dt_s: Control period.
    """

    topic: str
    kind: Kind
    joints: tuple[str, ...]
    order: tuple[int, ...]
    dt_s: float

    def reading(self, pos: Values) -> Reading:
        """A command (n,) as it is sent."""
        return Reading(_FIELDS[self.kind](self, pos[list(self.order)]), self.joints, 0.0)


_FIELDS: dict[Kind, Callable[[Outlet, Values], dict[str, Values]]] = {
    Kind.ARRAY: lambda outlet, pos: {"data": pos},
    Kind.TRAJECTORY: lambda outlet, pos: {
        "positions": pos[None],
        "times": np.array([outlet.dt_s]),
    },
}
