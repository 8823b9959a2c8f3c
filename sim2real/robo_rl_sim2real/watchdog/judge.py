"""What is to be done about a policy process, by what is known of it: no clock, no process."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from robo_rl_sim2real.watchdog.block import Beat, Phase


class Life(Enum):
    """How it is with a process, as the system knows it."""

    RUNS = "runs"
    STOPPED = "stopped"
    GONE = "gone"


class Verdict(Enum):
    """Go on watching, leave, or stop the robot."""

    WATCH = "watch"
    LEAVE = "leave"
    STOP = "stop"


class Finding(NamedTuple):
    """What is to be done, and why."""

    verdict: Verdict
    why: str = ""


def judge(beat: Beat | None, life: Life, now_s: float, patience_s: float) -> Finding:
    """What is to be done about a policy process.

    Only one that sends commands can do harm by falling silent: any other may take its time, and if
    it dies nothing is left to do.

    Args:
        beat: Its last; None where there was none.
        life: How it is with it.
        now_s: Time, on the clock of the beats.
        patience_s: Age of a beat beyond which it counts as hanging.
    """
    if beat is None or beat.phase is not Phase.SENDING:
        over = life is Life.GONE or (beat is not None and beat.phase is Phase.ENDED)
        return Finding(Verdict.LEAVE if over else Verdict.WATCH)
    if life is Life.GONE:
        return Finding(Verdict.STOP, "died")
    if life is Life.STOPPED:
        return Finding(Verdict.STOP, "was stopped by a signal")
    age_s = now_s - beat.time_s
    if age_s > patience_s:
        return Finding(Verdict.STOP, f"hangs: its last command is {1e3 * age_s:.0f} ms old")
    return Finding(Verdict.WATCH)
