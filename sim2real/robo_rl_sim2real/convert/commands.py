"""The commands of a bag, each with its time.

Shapes: n joints, in the order of the contract's actions; P commands on a topic with m of them.
Times are in seconds since the bag began.

A command on several topics is sent topic by topic, in no certain order. Its other parts are the
last ones that arrive up to half an interval after its part on the first topic. A trajectory starts
at its arrival and is sampled once per control period, until its end or the next trajectory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np

from robo_rl.core.errors import DataError, SpecError
from robo_rl_sim2real.control.commands.contract import command_spec
from robo_rl_sim2real.control.commands.publishers import make_command_topics
from robo_rl_sim2real.control.commands.topic import CommandTopic, Waypoints
from robo_rl_sim2real.convert.bag_reader import BagMessage, BagReader
from robo_rl_sim2real.convert.command_windows import command_margin_s
from robo_rl_sim2real.convert.conversion_spec import ConversionSpec
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading, Values, select_by_name
from robo_rl_sim2real.recording.topics import SENT

T = TypeVar("T")


class _TopicCommands(NamedTuple):
    """The commands on one topic: times (P,), in order, and positions (P, m)."""

    at_s: Values
    pos: Values


def commands(bag: BagReader, wanted: ConversionSpec) -> list[tuple[float, Values]]:
    """Return all commands (n,) of a bag, each with its time.

    In a recording by the node, the time is the start of the control period.

    Raises:
        DataError: A command has other joints or is not finite, or there is none.
    """
    if wanted.is_own_recording:
        return list(sent_commands(bag, wanted).items())
    ways = command_topics_of(wanted)
    _check_interfaces(bag, ways)
    parts = [_on_topic(bag, way) for way in ways]
    at_s, found = _joined(parts, ways, wanted.dt_s)
    if not len(at_s):
        expected = "one on " + " and ".join(f"'{way.topic}'" for way in ways)
        raise DataError("no whole command", where=bag.path, expected=expected)
    return list(zip(at_s.tolist(), found, strict=True))


def command_topics_of(wanted: ConversionSpec) -> tuple[CommandTopic, ...]:
    """Return the topics of commands."""
    names = command_spec(wanted.contract, robot := wanted.sources.robot.build()).names
    return make_command_topics(wanted.sources.command, robot, names, wanted.dt_s)


def sent_commands(bag: BagReader, wanted: ConversionSpec) -> dict[float, Values]:
    """Return time → command (n,) of a recording by the node; empty if none was sent.

    Raises:
        DataError: A command has no names or other joints, or is not finite.
    """
    names = command_spec(wanted.contract, wanted.sources.robot.build()).names

    def positions(reading: Reading) -> Values:
        return joint_positions(reading, names, f"'{SENT}'")

    came = bag.messages([SENT]) if SENT in bag.kinds else ()
    return {each.reading.stamp_s: read_message(bag, each, positions) for each in came}


def joint_positions(reading: Reading, names: tuple[str, ...], where: str) -> Values:
    """Return the positions of joints in a joint state, in the order of ``names``.

    Raises:
        SpecError: The joint state has no names or other joints, or is not finite.
    """
    if not reading.names:  # the order would be the sender's
        raise SpecError("joint states without names", where=where)
    return select_by_name(reading, "position", names, where)


def read_message(bag: BagReader, came: BagMessage, read: Callable[[Reading], T]) -> T:
    """Return what ``read`` makes of a message.

    Raises:
        DataError: ``read`` raises a SpecError.
    """
    try:
        return read(came.reading)
    except SpecError as error:
        raise DataError(f"{error} at {came.reading.stamp_s:.3f} s", where=bag.path) from None


def _check_interfaces(bag: BagReader, ways: Sequence[CommandTopic]) -> None:
    for way in ways:
        found = bag.kinds.get(way.topic, way.kind.value)
        if found != way.kind.value:
            expected = way.kind.value
            raise DataError(f"topic '{way.topic}'", where=bag.path, expected=expected, found=found)


def _on_topic(bag: BagReader, way: CommandTopic) -> _TopicCommands:
    came = bag.messages([way.topic])
    if way.kind is MsgType.TRAJECTORY:
        read = [(c.reading.stamp_s, read_message(bag, c, way.waypoints)) for c in came]
        pairs = list(_sampled(read, way.dt_s))
    else:
        pairs = [(c.reading.stamp_s, read_message(bag, c, way.positions_in)) for c in came]
    return _TopicCommands(
        np.array([at_s for at_s, _ in pairs]), np.stack([pos for _, pos in pairs])
    )


def _sampled(
    came: Sequence[tuple[float, Waypoints]], dt_s: float
) -> Iterator[tuple[float, Values]]:
    """Yield a command per control period of each trajectory: the position at the period's end.

    A trajectory leads from the place where the one before is replaced, as in a controller that
    starts from its own reference.
    """
    start: Values | None = None
    for (at_s, way), (next_s, _) in pairwise([*came, (math.inf, None)]):
        assert way is not None
        path, periods = way.starting_from(start), (next_s - at_s) / dt_s
        length = max(1, math.ceil(path.periods[-1]))
        for i in range(int(min(length, max(1.0, np.ceil(periods - 0.5))))):
            yield at_s + i * dt_s, path.at(i + 1)
        start = path.at(periods)


def _joined(
    parts: Sequence[_TopicCommands], ways: Sequence[CommandTopic], dt_s: float
) -> tuple[Values, Values]:
    """Return times (P,) and commands (P, n): those of the first topic, with all other parts."""
    first_s = parts[0].at_s
    gap_s = np.diff(first_s, append=np.inf)
    end_s = first_s + np.minimum(gap_s / 2, command_margin_s(first_s, dt_s))
    rows = [np.searchsorted(part.at_s, end_s, side="right") - 1 for part in parts[1:]]
    found = np.zeros((len(first_s), sum(len(way.indices) for way in ways)))
    for part, way, row in zip(parts, ways, [np.arange(len(first_s)), *rows], strict=True):
        found[:, list(way.indices)] = part.pos[row]
    whole = np.all([row >= 0 for row in rows], axis=0) & np.ones(len(first_s), bool)
    return first_s[whole], found[whole]
