"""In which state a deployed policy is, and what leads from one to another."""

from __future__ import annotations

from enum import Enum

from robo_rl.core.errors import RoboRlError


class State(str, Enum):
    """unconfigured → inactive → ramping → running; holding → ramping; faulted until a reset.

    Teleoperated from ramping or running, and back by ramping. Homing from inactive, and back.
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
        """Whether anything says where to go: the policy, who took over from it, or the start."""
        return self not in (State.UNCONFIGURED, State.INACTIVE, State.FAULTED)


class Event(str, Enum):
    """What happens; the last six to a robot that is moved."""

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
"""What somebody can ask for; the others happen."""


class TransitionError(RoboRlError):
    """An event that the present state has no answer to."""


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
    """The state that an event leads to.

    Raises:
        TransitionError: There is no such way.
    """
    if (state, event) not in _NEXT:
        ways = [known.value for at, known in _NEXT if at is state and known in _ASKED]
        hint = f"possible: {', '.join(ways)}" if ways else None
        raise TransitionError(f"cannot {event.value} while {state.value}", hint=hint)
    return _NEXT[state, event]
