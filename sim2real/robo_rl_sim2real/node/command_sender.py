"""Sends the commands of a node, each after its report to the guard, and counts those that fail."""

from __future__ import annotations

from collections.abc import Callable

from robo_rl_sim2real.control.commands.publishers import CommandPublishers, PartlySentError
from robo_rl_sim2real.control.commands.safety import Command, Safety
from robo_rl_sim2real.messages.readings import Values
from robo_rl_sim2real.watchdog.guard import MotionGuard

MAX_UNDELIVERED = 3
"""Consecutive periods without a sent command, after which the watchdog hears of none either."""


class CommandSender:
    """Sends the command of every period; a dry run sends none.

    Args:
        out: Publishers of the commands.
        safety: Safety checks, whose limiter holds the motion that ends at the command.
        guard: Returns the present guard, which hears of a command before it is sent.
        by_velocity: Whether a part of the commands are velocities.
        dry_run: Whether commands are not sent.
    """

    def __init__(
        self,
        out: CommandPublishers,
        safety: Safety,
        guard: Callable[[], MotionGuard],
        *,
        by_velocity: bool,
        dry_run: bool,
    ) -> None:
        self._out, self._safety, self._guard = out, safety, guard
        self._by_velocity, self._dry_run = by_velocity, dry_run
        self._delivered: Values | None = None
        """The last command that was sent."""
        self._undelivered = 0
        """Consecutive periods whose command was not sent."""

    def send(self, command: Command | None) -> None:
        """Report and send the command of a period; None for none.

        Raises:
            Exception: It was not sent, or only in part; ``count_failure`` handles that.
        """
        limiter, guard = self._safety.limiter, self._guard()
        sends = command is not None and not self._dry_run
        if sends and self._by_velocity and guard.has_stood():
            limiter.restart(limiter.motion.pos)  # the robot stands: its velocity begins anew
        motion = limiter.motion
        if not sends or self._undelivered < MAX_UNDELIVERED:
            guard.report(motion, sending=sends)
        if sends:
            self._out.send(motion)
        self._delivered, self._undelivered = motion.pos if sends else None, 0

    def count_failure(self, error: Exception) -> None:
        """Count a command that was not sent, and begin the next one where the robot stands."""
        self._undelivered += 1
        if isinstance(error, PartlySentError):  # the joints that hear go on with their braking
            self._delivered = None
        elif self._delivered is not None:  # the robot stands there, and not where braking is
            self._safety.limiter.restart(self._delivered)
