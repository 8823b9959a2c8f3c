"""Braking commands from another process's last motion, one per control period.

Shapes: n joints.
"""

from __future__ import annotations

from collections.abc import Iterator

from robo_rl_sim2real.control.commands.braking import Limits, Motion
from robo_rl_sim2real.control.commands.limiter import Limiter
from robo_rl_sim2real.core.clock import Clock, PeriodicTimer
from robo_rl_sim2real.watchdog.heartbeat import Heartbeat


def braking_commands(
    beat: Heartbeat,
    limits: Limits,
    clock: Clock,
    final_hold_s: float,
    *,
    by_velocity: bool = False,
) -> Iterator[Motion]:
    """Yield commands to rest at the times they are due, then hold for ``final_hold_s``.

    The first command, without delay, is the last one of the dead process, which may have died
    before sending it. Sending it twice has no effect. Then the braking manoeuvre continues on its
    own grid of periods. If a period was missed, the robot has already stopped at the last command,
    because a controller without commands holds its position. It is then held there, since
    restarting the motion to brake it would cause a jolt. The runtime has the same rule: a period is
    missed once the next one is due. A robot that is told velocities stops within a period, since
    the watchdog tells it a velocity of zero.

    Args:
        beat: Last beat.
        limits: Limits of the joints, within which the motion was made.
        clock: Clock of the beat's time.
        final_hold_s: Duration of the hold at rest.
        by_velocity: Whether the robot is told velocities.
    """
    patience_s = limits.dt_s if by_velocity else 2.0 * limits.dt_s
    limiter, last, held = Limiter(limits, beat.motion.pos), 0, 0
    limiter.motion = beat.motion
    if clock.now_s() - beat.time_s > patience_s:  # it has stopped
        limiter.restart(limiter.motion.pos)  # a commanded velocity must not restart it
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
