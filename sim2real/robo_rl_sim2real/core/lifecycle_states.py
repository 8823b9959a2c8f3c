"""Lifecycle states of a deployed policy and the transitions between them."""

from __future__ import annotations

from enum import Enum

from robo_rl.core.errors import RoboRlError


class State(str, Enum):
    """unconfigured → inactive → ramping → running; holding → ramping; faulted until a reset.

    Teleoperation starts from ramping or running and returns to ramping. Homing starts from inactive
    and returns to inactive.
    """

    UNCONFIGURED = "unconfigured"
    INACTIVE = "inactive"
    HOMING = "homing"
    RAMPING = "ramping"
    RUNNING = "running"
    TELEOPERATED = "teleoperated"
    HOLDING = "holding"
    FAULTED = "faulted"

    @property
    def moves(self) -> bool:
        """Whether there is a source of targets: the policy, an operator, or the start pose."""
        return self not in (State.UNCONFIGURED, State.INACTIVE, State.FAULTED)


class Event(str, Enum):
    """Lifecycle events; the last six occur while the robot is being moved."""

    CONFIGURE = "configure"
    CLEANUP = "cleanup"
    ACTIVATE = "activate"
    HOME = "home"
    DEACTIVATE = "deactivate"
    RESET = "reset"
    RAMPED = "ramped"
    TAKE_OVER = "take over"
    HAND_BACK = "hand back"
    HOLD = "hold"
    RECOVER = "recover"
    FAULT = "fault"


_ASKED = (
    *(Event.CONFIGURE, Event.CLEANUP, Event.ACTIVATE, Event.HOME, Event.DEACTIVATE, Event.RESET),
)
"""Events that a user can request; the other events result from the control loop."""


class TransitionError(RoboRlError):
    """An event that is not allowed in the present state."""


_NEXT: dict[tuple[State, Event], State] = {
    (State.UNCONFIGURED, Event.CONFIGURE): State.INACTIVE,
    (State.INACTIVE, Event.CLEANUP): State.UNCONFIGURED,
    (State.INACTIVE, Event.ACTIVATE): State.RAMPING,
    (State.INACTIVE, Event.HOME): State.HOMING,
    (State.RAMPING, Event.RAMPED): State.RUNNING,
    (State.RAMPING, Event.HOLD): State.HOLDING,
    (State.RUNNING, Event.HOLD): State.HOLDING,
    (State.TELEOPERATED, Event.HOLD): State.HOLDING,
    (State.RAMPING, Event.TAKE_OVER): State.TELEOPERATED,
    (State.RUNNING, Event.TAKE_OVER): State.TELEOPERATED,
    (State.TELEOPERATED, Event.HAND_BACK): State.RAMPING,
    (State.HOLDING, Event.RECOVER): State.RAMPING,
    (State.FAULTED, Event.RESET): State.INACTIVE,
    **{(state, Event.FAULT): State.FAULTED for state in State if state.moves},
    **{(state, Event.DEACTIVATE): State.INACTIVE for state in State if state.moves},
}


def after(state: State, event: Event) -> State:
    """Return the state that an event leads to.

    Raises:
        TransitionError: The event is not allowed in this state.
    """
    if (state, event) not in _NEXT:
        ways = [known.value for at, known in _NEXT if at is state and known in _ASKED]
        hint = f"possible: {', '.join(ways)}" if ways else None
        raise TransitionError(f"cannot {event.value} while {state.value}", hint=hint)
    return _NEXT[state, event]
