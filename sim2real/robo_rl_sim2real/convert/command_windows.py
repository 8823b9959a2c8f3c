"""Divides the commands of a foreign bag into control periods.

Shapes: N commands. Times are in seconds since the bag began.

A control period ends half an interval after a command, and not where a command is expected, so that
jitter below half an interval moves no command to another period. If commands come about once per
control period, at a whole multiple of its rate, or at a whole fraction, the ends follow the
commands: a rate that differs a little from the contract's neither repeats nor leaves out a command.
At another rate the ends stay on a grid, and the periods hold commands as they come.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from robo_rl_sim2real.messages.readings import Values

_SAME_RATE = 0.05
"""Relative deviation from a multiple up to which the commands' rate counts as this multiple."""


class CommandWindow(NamedTuple):
    """The commands of one control period.

    Args:
        number: Number of the period; a missing number ends an episode.
        at_s: Arrival of the first command in the period, whose observations are older; the middle
            of a period without a command.
        newest: Index of the last command before the end of the period.
        is_fresh: Whether this command is not too old.
    """

    number: int
    at_s: float
    newest: int
    is_fresh: bool


def command_margin_s(came_s: Values, dt_s: float) -> float:
    """Return half the median interval of commands (N,), at most half a control period."""
    interval_s = float(np.median(np.diff(came_s))) if len(came_s) > 1 else dt_s
    return min(interval_s, dt_s) / 2


def command_windows(came_s: Values, dt_s: float, max_age_s: float) -> Iterator[CommandWindow]:
    """Yield the control periods from the first command to the last.

    A period without a command has the last one, which the robot holds. After the first period with
    a command that is too old, the periods continue at the next command.

    Args:
        came_s: (N,) arrival times of the commands, in order; at least one.
        dt_s: Control period.
        max_age_s: Age beyond which a command is too old.
    """
    margin_s, follows = command_margin_s(came_s, dt_s), _is_multiple(came_s, dt_s)
    number, first, begin_s = 0, 0, float(came_s[0]) - margin_s
    expected_s = begin_s
    while first < len(came_s):
        end_s = _between_commands(expected_s + dt_s, came_s, margin_s)
        expected_s = end_s if follows else expected_s + dt_s
        after = int(np.searchsorted(came_s, end_s))
        at_s = float(came_s[first]) if after > first else (begin_s + end_s) / 2
        is_fresh = at_s - came_s[after - 1] <= max_age_s + 1e-9
        yield CommandWindow(number, at_s, after - 1, bool(is_fresh))
        number, first, begin_s = number + 1, after, end_s
        if not is_fresh and first < len(came_s):
            number, begin_s = number + 1, float(came_s[first]) - margin_s
            expected_s = begin_s


def _is_multiple(came_s: Values, dt_s: float) -> bool:
    """Return whether of the commands' interval and the period one is a multiple of the other."""
    interval_s = float(np.median(np.diff(came_s))) if len(came_s) > 1 else dt_s
    low_s, high_s = sorted((max(interval_s, 1e-9), dt_s))
    ratio = high_s / low_s
    return abs(ratio - round(ratio)) <= _SAME_RATE * ratio


def _between_commands(end_s: float, came_s: Values, margin_s: float) -> float:
    """Return the time nearest to ``end_s`` that is ``margin_s`` from commands, or between two."""
    after = int(np.searchsorted(came_s, end_s))
    low_s = float(came_s[after - 1]) + margin_s
    high_s = float(came_s[after]) - margin_s if after < len(came_s) else np.inf
    return (low_s + high_s) / 2 if low_s > high_s else min(max(end_s, low_s), high_s)
