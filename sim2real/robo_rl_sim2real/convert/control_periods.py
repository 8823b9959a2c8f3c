"""The control periods of a bag: the start of each, and the command in it.

Shapes: n joints, in the order of the contract's actions. Times are in seconds since the bag began.

A recording by the node contains its control periods. For a foreign bag they form a grid at the
contract's rate, on the recorder's clock, from the first command on. The command of a period is the
last one before its end, because it responds to the observation at its start.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from robo_rl.core.errors import DataError, SpecError
from robo_rl_sim2real.control.commands.contract import command_spec
from robo_rl_sim2real.control.commands.publishers import make_command_topics
from robo_rl_sim2real.control.commands.topic import CommandTopic
from robo_rl_sim2real.control.events import CommandSource
from robo_rl_sim2real.convert.bag_reader import BagMessage, BagReader
from robo_rl_sim2real.convert.conversion_spec import ConversionSpec
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.readings import Values, select_by_name
from robo_rl_sim2real.recording.topics import SENT, TICK


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
    """Return all control periods of a bag, in order.

    Raises:
        DataError: Ticks are damaged or out of order, or a command has other joints or is not
            finite.
    """
    return list(_recorded(bag, wanted) if wanted.is_own_recording else _laid_out(bag, wanted))


def _recorded(bag: BagReader, wanted: ConversionSpec) -> Iterator[ControlPeriod]:
    sent = _sent(bag, _names(wanted)) if SENT in bag.kinds else {}
    last, resumes = None, False
    for came in bag.messages([TICK]):
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


def _sent(bag: BagReader, names: tuple[str, ...]) -> dict[float, Values]:
    """Return time → sent command, in the order of names (n,)."""
    found: dict[float, Values] = {}
    for came in bag.messages([SENT]):
        at_s = came.reading.stamp_s
        try:
            position = select_by_name(came.reading, "position", names, f"'{SENT}'")
        except SpecError as error:
            raise DataError(f"{error} at {at_s:.3f} s", where=bag.path) from None
        found[at_s] = _checked(bag, came, position, len(names))
    return found


def _names(wanted: ConversionSpec) -> tuple[str, ...]:
    """Return the names of the commanded axes."""
    return tuple(command_spec(wanted.contract, wanted.sources.robot.build()).names)


def commands(bag: BagReader, wanted: ConversionSpec) -> list[tuple[float, Values]]:
    """Return all commands (n,) of a bag, each with its time.

    In a recording by the node, the time is the start of the control period.

    Raises:
        DataError: A command has other joints or is not finite, or there is none.
    """
    if wanted.is_own_recording:
        return list(_sent(bag, _names(wanted)).items())
    found = command_topics_of(wanted)
    for way in found:
        if bag.kinds.get(way.topic, way.kind.value) != way.kind.value:
            raise DataError(
                f"topic '{way.topic}'",
                where=bag.path,
                expected=way.kind.value,
                found=bag.kinds[way.topic],
            )
    return list(_merged(bag, found, wanted.contract.act.shape[-1]))


def command_topics_of(wanted: ConversionSpec) -> tuple[CommandTopic, ...]:
    """Return the topics of commands."""
    names = command_spec(wanted.contract, robot := wanted.sources.robot.build()).names
    return make_command_topics(wanted.sources.command, robot, names, wanted.dt_s)


def _merged(
    bag: BagReader, ways: tuple[CommandTopic, ...], size: int
) -> Iterator[tuple[float, Values]]:
    """Yield each command on the first topic, merged with the commands on the others.

    A command is sent topic by topic, so its other parts follow its part on the first topic.
    """
    of, heard, command = {way.topic: way for way in ways}, set[str](), np.zeros(size)
    at_s: float | None = None
    for came in bag.messages(list(of)):
        if came.topic == ways[0].topic:
            if at_s is not None and len(heard) == len(ways):
                yield at_s, command.copy()
            at_s = came.reading.stamp_s
        way = of[came.topic]
        try:
            command[list(way.indices)] = way.positions_in(came.reading)
        except SpecError as error:
            raise DataError(f"{error} at {came.reading.stamp_s:.3f} s", where=bag.path) from None
        heard.add(came.topic)
    if at_s is not None and len(heard) == len(ways):
        yield at_s, command.copy()


def _laid_out(bag: BagReader, wanted: ConversionSpec) -> Iterator[ControlPeriod]:
    given = commands(bag, wanted)
    dt_s, first_s = wanted.dt_s, given[0][0]
    newest, number = 0, 0
    while (at_s := first_s + number * dt_s) <= given[-1][0]:
        while newest + 1 < len(given) and given[newest + 1][0] < at_s + dt_s - 1e-9:
            newest += 1
        came_s, command = given[newest]
        fresh = at_s - came_s <= wanted.max_age_s
        yield ControlPeriod(number, at_s, command, is_usable=fresh, by_human=False)
        number += 1
        if not fresh and newest + 1 < len(given):  # the numbers left out end the episode
            number = max(number, int((given[newest + 1][0] - first_s) / dt_s))


def _checked(bag: BagReader, came: BagMessage, values: Values, size: int) -> Values:
    if values.shape != (size,):
        raise _misfit(bag, came, expected=f"{size} joints", found=len(values))
    if not np.isfinite(values).all():
        raise _misfit(bag, came, expected="finite numbers", found=values.tolist())
    return values


def _misfit(bag: BagReader, came: BagMessage, *, expected: Any, found: Any) -> DataError:
    what = f"command on '{came.topic}' at {came.reading.stamp_s:.3f} s"
    return DataError(what, where=bag.path, expected=expected, found=found)
