"""The control periods of a bag: the start of each, and the command in it.

Shapes: n joints, in the order of the contract's actions. Times are in seconds since the bag began.

A recording by the node contains its control periods. Those of a foreign bag follow its commands, on
the recorder's clock, see ``command_windows``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from robo_rl.core.errors import DataError
from robo_rl_sim2real.control.events import CommandSource
from robo_rl_sim2real.convert.bag_reader import BagReader
from robo_rl_sim2real.convert.command_windows import command_windows
from robo_rl_sim2real.convert.commands import commands, sent_commands
from robo_rl_sim2real.convert.conversion_spec import ConversionSpec
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.readings import Values
from robo_rl_sim2real.recording.topics import TICK


class ControlPeriod(NamedTuple):
    """A control period.

    Args:
        number: Number of the period; missing numbers are missed periods.
        at_s: Start of the period.
        command: (n,) the command; None without one.
        is_usable: Whether the policy or a human commanded, rather than the initial ramp or a way to
            rest.
        by_human: Whether a human commanded.
        instruction: The words that the command follows; empty if they are not recorded.
    """

    number: int
    at_s: float
    command: Values | None
    is_usable: bool
    by_human: bool
    instruction: str = ""


def control_periods(bag: BagReader, wanted: ConversionSpec) -> list[ControlPeriod]:
    """Return all control periods of a bag, in order; none of a recording that ends before them.

    Raises:
        DataError: Ticks are damaged or out of order, or a command has other joints or is not
            finite.
    """
    return list(_recorded(bag, wanted) if wanted.is_own_recording else _laid_out(bag, wanted))


def why_unusable(found: Sequence[ControlPeriod]) -> str:
    """Return why no control period can become a row; empty if one can."""
    usable = [period for period in found if period.is_usable]
    if not usable:
        return "never active, or only on ramps and holds"
    return "" if any(period.command is not None for period in usable) else "no command was sent"


def _recorded(bag: BagReader, wanted: ConversionSpec) -> Iterator[ControlPeriod]:
    sent = sent_commands(bag, wanted)
    last, resumes = None, False
    for came in bag.messages([TICK]) if TICK in bag.kinds else ():
        at_s = came.reading.stamp_s
        try:
            fields = came.fields
            number, state = int(fields["tick"]), State(fields["state"])
            reason, by = str(fields["reason"]), CommandSource(fields["by"])
            words = str(fields.get("instruction", ""))
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"'{TICK}' at {at_s:.3f} s: {error}", where=bag.path) from None
        if last is not None and number <= last:
            raise DataError(
                f"ticks out of order at {at_s:.3f} s",
                where=bag.path,
                expected=f"more than {last}",
                found=number,
                hint="a clock was set while it was recorded, or bags were merged",
            )
        last, human = number, by is CommandSource.HUMAN
        resumes = human or (resumes and state is State.RAMPING)  # usable after teleoperation
        counts = not reason and (resumes or state is State.RUNNING)
        yield ControlPeriod(number, at_s, sent.get(at_s), counts, human, words)


def _laid_out(bag: BagReader, wanted: ConversionSpec) -> Iterator[ControlPeriod]:
    given = commands(bag, wanted)
    came_s = np.array([at_s for at_s, _ in given])
    for number, at_s, newest, fresh in command_windows(came_s, wanted.dt_s, wanted.max_age_s):
        yield ControlPeriod(number, at_s, given[newest][1], is_usable=fresh, by_human=False)
