"""What is to be done about a policy process, by what is known of it: no clock, no process."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from robo_rl_sim2real.watchdog.heartbeat import Heartbeat, Phase


class ProcessState(Enum):
    """How it is with a process, as the system knows it."""

    RUNS = "runs"
    STOPPED = "stopped"
    GONE = "gone"


class WatchdogAction(Enum):
    """Go on watching, tell velocities to be zero meanwhile, leave, or stop the robot."""

    WATCH = "watch"
    STAND = "stand"
    LEAVE = "leave"
    STOP = "stop"


class Assessment(NamedTuple):
    """What is to be done, and why."""

    action: WatchdogAction
    reason: str = ""


class SilenceLimits(NamedTuple):
    """For how long a process that runs may be silent while it sends commands.

    Args:
        late_s: Age of its last command beyond which velocities are told to be zero.
        hang_timeout_s: Silence beyond which it counts as hanging.
    """

    late_s: float
    hang_timeout_s: float


class SilenceTimer:
    """For how long a process has been silent, by the time in which the listener ran.

    A machine that stands still, or has no time for the listener, is no evidence against the other
    side: of the time between two looks at most ``most_s`` counts.
    """

    def __init__(self, most_s: float = 0.1) -> None:
        self._most_s, self._number = most_s, -1
        self._looked_s = self._silent_s = 0.0

    def update(self, number: int, now_s: float) -> float:
        """Seconds without a new beat.

        Args:
            number: Of the last beat.
            now_s: What time it is.
        """
        if number != self._number:
            self._number, self._silent_s = number, 0.0
        else:
            self._silent_s += min(now_s - self._looked_s, self._most_s)
        self._looked_s = now_s
        return self._silent_s


def assess(
    beat: Heartbeat | None,
    life: ProcessState,
    age_s: float,
    silent_s: float,
    patience: SilenceLimits,
) -> Assessment:
    """What is to be done about a policy process.

    Only one that sends commands can do harm by falling silent: any other may take its time, and if
    it dies nothing is left to do. One that is dead or stopped cannot come back by itself, so
    nothing is waited for. One that runs may only be late: it is left alone until it hangs, for
    whoever obeys positions stands at the last one anyway.

    Args:
        beat: Its last; None where there was none.
        life: How it is with it.
        age_s: Of the last beat.
        silent_s: For how long the process has been silent, see ``Silence``.
        patience: With one that runs.
    """
    if beat is None or beat.phase is not Phase.SENDING:
        ended = beat is not None and beat.phase is Phase.ENDED
        if ended or life is ProcessState.GONE:
            return Assessment(WatchdogAction.LEAVE, "" if ended or beat is None else "died")
        return Assessment(WatchdogAction.WATCH)
    if life is ProcessState.GONE:
        return Assessment(WatchdogAction.STOP, "died")
    if life is ProcessState.STOPPED:
        return Assessment(WatchdogAction.STOP, "was stopped by a signal")
    if silent_s > patience.hang_timeout_s:
        return Assessment(
            WatchdogAction.STOP, f"hangs: its last command is {1e3 * age_s:.0f} ms old"
        )
    return Assessment(WatchdogAction.STAND if age_s > patience.late_s else WatchdogAction.WATCH)
