"""A policy's states as ROS 2's managed nodes have them, and what leads from one to another.

ROS 2 knows four (design.ros2.org, "Managed nodes"): unconfigured, inactive, active, finalized. A
policy that ramps, runs or holds is active; one at fault is inactive, and is kept from being
activated until it was reset; so is one whose robot goes to its start, until it is there.
"""

from __future__ import annotations

from enum import Enum

from robo_rl_sim2real.core.lifecycle_states import State


class Primary(str, Enum):
    """ROS 2's states, by their label."""

    UNCONFIGURED = "unconfigured"
    INACTIVE = "inactive"
    ACTIVE = "active"
    FINALIZED = "finalized"


class Transition(str, Enum):
    """ROS 2's transitions; each is also the request that a policy grants for it."""

    CONFIGURE = "configure"
    CLEANUP = "cleanup"
    ACTIVATE = "activate"
    DEACTIVATE = "deactivate"
    SHUTDOWN = "shutdown"


def primary(state: State) -> Primary:
    """How a policy's state looks to ROS 2."""
    if state is State.UNCONFIGURED:
        return Primary.UNCONFIGURED
    active = state.moves and state is not State.HOMING
    return Primary.ACTIVE if active else Primary.INACTIVE


def transitions_between(at: Primary, to: Primary) -> list[Transition]:
    """The transitions from one state to another; none where there is no way, as from the end."""
    ways: dict[tuple[Primary, Primary], list[Transition]] = {
        (Primary.UNCONFIGURED, Primary.INACTIVE): [Transition.CONFIGURE],
        (Primary.UNCONFIGURED, Primary.ACTIVE): [Transition.CONFIGURE, Transition.ACTIVATE],
        (Primary.INACTIVE, Primary.UNCONFIGURED): [Transition.CLEANUP],
        (Primary.INACTIVE, Primary.ACTIVE): [Transition.ACTIVATE],
        (Primary.ACTIVE, Primary.INACTIVE): [Transition.DEACTIVATE],
        (Primary.ACTIVE, Primary.UNCONFIGURED): [Transition.DEACTIVATE, Transition.CLEANUP],
    }
    return ways.get((at, to), [])
