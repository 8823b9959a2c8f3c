"""The way to rest from where another process left off, one command a control period.

Shapes: n joints.
"""

from __future__ import annotations

from collections.abc import Iterator

from robo_rl_sim2real.control.commands.braking import Limits, Motion
from robo_rl_sim2real.control.commands.limiter import Limiter
from robo_rl_sim2real.core.clock import Clock, PeriodicTimer
from robo_rl_sim2real.watchdog.heartbeat import Heartbeat


def braking_commands(
    beat: Heartbeat, limits: Limits, clock: Clock, final_hold_s: float
) -> Iterator[Motion]:
    """Commands, each given when it is due: to rest, and for ``final_hold_s`` there.

    The first, at once, is the last one of who left off, who may have gone before it was sent; one
    that was sent changes nothing by coming twice. Then the braking manoeuvre that it left open goes
    on on its own grid of periods. If a period was missed meanwhile, the robot has stopped where it
    was told to be, for a controller without commands stays there: then that is where it is held. To
    set it going again just to brake it would be a jolt. The rule is that of the runtime.

    Args:
        beat: The last.
        limits: Of the joints; those that its motion was made within.
        clock: Its time is that of the beat.
        final_hold_s: For how long it is told to stay.
    """
    limiter, last, held = Limiter(limits, beat.motion.pos), 0, 0
    limiter.motion = beat.motion
    if clock.now_s() - beat.time_s > limits.dt_s:  # the robot has stopped: what it was told of
        limiter.restart(limiter.motion.pos)  # speed, too, must not set it going again
    yield limiter.motion
    for number in PeriodicTimer(limits.dt_s, clock, beat.time_s):
        if number - last > 1:
            limiter.restart(limiter.motion.pos)
        last = number
        limiter.brake()
        yield limiter.motion
        held += limiter.at_rest
        if held * limits.dt_s > final_hold_s:
            return
