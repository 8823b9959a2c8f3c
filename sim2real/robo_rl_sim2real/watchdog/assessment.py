"""Decides what to do about a policy process from its known state, without a clock or process."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from robo_rl_sim2real.watchdog.heartbeat import Heartbeat, Phase


class ProcessState(Enum):
    """State of a process, as the operating system reports it."""

    RUNS = "runs"
    STOPPED = "stopped"
    GONE = "gone"


class WatchdogAction(Enum):
    """Continue watching, command zero velocities meanwhile, leave, or stop the robot."""

    WATCH = "watch"
    STAND = "stand"
    LEAVE = "leave"
    STOP = "stop"


class Assessment(NamedTuple):
    """The action and its reason."""

    action: WatchdogAction
    reason: str = ""


class SilenceLimits(NamedTuple):
    """Time limits on the silence of a running process that sends commands.

    Args:
        late_s: Age of its last command beyond which zero velocities are commanded.
        hang_timeout_s: Silence beyond which it counts as hanging.
    """

    late_s: float
    hang_timeout_s: float


class SilenceTimer:
    """Measures a process's silence in time that the listener was running.

    A suspended machine, or a listener without CPU time, says nothing about the other process. At
    most ``most_s`` of the time between two updates counts.
    """

    def __init__(self, most_s: float = 0.1) -> None:
        self._most_s, self._number = most_s, -1
        self._looked_s = self._silent_s = 0.0

    def update(self, number: int, now_s: float) -> float:
        """Return the time without a new beat, in s.

        Args:
            number: Number of the last beat.
            now_s: Present time.
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
    """Decide what to do about a policy process.

    Only a process that sends commands can do harm by falling silent. Any other process may be slow,
    and nothing is left to do if it dies. A dead or stopped process cannot resume, so the robot is
    stopped at once. A running process may only be late. It is left alone until it hangs, because a
    robot with position commands stays at the last one.

    Args:
        beat: Its last beat; None without one.
        life: State of the process.
        age_s: Age of the last beat.
        silent_s: Silence of the process, see ``SilenceTimer``.
        patience: Time limits for a running process.
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
