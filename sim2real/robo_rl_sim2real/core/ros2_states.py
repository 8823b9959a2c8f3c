"""Mapping of the policy's states to the states and transitions of ROS 2's managed nodes.

ROS 2 has four states (design.ros2.org, "Managed nodes"): unconfigured, inactive, active, finalized.
A policy that ramps, runs or holds is active. A faulted policy is inactive and cannot be activated
before a reset. A policy whose robot is homing is inactive and cannot be activated before the robot
arrives.
"""

from __future__ import annotations

from enum import Enum

from robo_rl_sim2real.core.lifecycle_states import State


class Primary(str, Enum):
    """ROS 2's primary states, by their label."""

    UNCONFIGURED = "unconfigured"
    INACTIVE = "inactive"
    ACTIVE = "active"
    FINALIZED = "finalized"


class Transition(str, Enum):
    """ROS 2's transitions; each is also the name of the lifecycle request to the policy."""

    CONFIGURE = "configure"
    CLEANUP = "cleanup"
    ACTIVATE = "activate"
    DEACTIVATE = "deactivate"
    SHUTDOWN = "shutdown"


def primary(state: State) -> Primary:
    """Return ROS 2's primary state for a policy's state."""
    if state is State.UNCONFIGURED:
        return Primary.UNCONFIGURED
    active = state.moves and state is not State.HOMING
    return Primary.ACTIVE if active else Primary.INACTIVE


def transitions_between(at: Primary, to: Primary) -> list[Transition]:
    """Return the transitions from one state to another; empty if there is no path."""
    ways: dict[tuple[Primary, Primary], list[Transition]] = {
        (Primary.UNCONFIGURED, Primary.INACTIVE): [Transition.CONFIGURE],
        (Primary.UNCONFIGURED, Primary.ACTIVE): [Transition.CONFIGURE, Transition.ACTIVATE],
        (Primary.INACTIVE, Primary.UNCONFIGURED): [Transition.CLEANUP],
        (Primary.INACTIVE, Primary.ACTIVE): [Transition.ACTIVATE],
        (Primary.ACTIVE, Primary.INACTIVE): [Transition.DEACTIVATE],
        (Primary.ACTIVE, Primary.UNCONFIGURED): [Transition.DEACTIVATE, Transition.CLEANUP],
    }
    return ways.get((at, to), [])
