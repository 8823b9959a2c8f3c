"""Commanded and measured joint trajectories: the unbroken segments of a bag.

Shapes: S commands, R readings, n joints. Times are in seconds since the bag began.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from robo_rl.core.errors import DataError
from robo_rl_sim2real.control.commands.contract import command_spec
from robo_rl_sim2real.convert.bag_reader import BagReader
from robo_rl_sim2real.convert.commands import commands, joint_positions, read_message
from robo_rl_sim2real.convert.conversion_spec import ConversionSpec
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading, Values

_BREAK_S = 0.5  # a longer gap may contain a reset or a manual motion


class TrajectorySegment(NamedTuple):
    """Commands and readings of one segment.

    Args:
        joints: (n,) names.
        command_s: (S,) times of the commands, increasing.
        commands: (S, n) positions.
        received_s: (R,) arrival times of the readings, increasing.
        measured_s: (R,) header times of the readings, on the robot's clock; NaN without any.
        pos: (R, n) measured positions.
    """

    joints: tuple[str, ...]
    command_s: Values
    commands: Values
    received_s: Values
    measured_s: Values
    pos: Values


def trajectory_segments(bag: BagReader, wanted: ConversionSpec) -> list[TrajectorySegment]:
    """Return the segments of a bag, without grippers, which stop at the object that they hold.

    Args:
        bag: Open bag.
        wanted: Contract and sources of the bag.

    Raises:
        DataError: It has no joint states, or they have no names, lack a commanded joint or are not
            finite.
    """
    robot = wanted.sources.robot.build()
    target = command_spec(wanted.contract, robot)
    joints = tuple(
        name for name, arm in zip(target.names, target.tracks_command, strict=True) if arm
    )
    if robot.end_effector is not None and {*joints} & {*robot.end_effector.names}:
        hint = "record a policy that commands joints"
        raise DataError("commands of a hand: latency is found of joints", where=bag.path, hint=hint)
    given = commands(bag, wanted)
    told_s = np.array([at_s for at_s, _ in given])
    told = np.array([pos for _, pos in given]).reshape(len(given), len(target.names))
    came_s, header_s, pos = _readings(bag, _joint_states(bag, wanted, robot.topics), joints)
    found = list[TrajectorySegment]()
    for part in np.split(np.arange(len(told_s)), np.flatnonzero(np.diff(told_s) > _BREAK_S) + 1):
        if len(part):
            seen = slice(*np.searchsorted(came_s, told_s[part[[0, -1]]]))
            told_part = told[part][:, target.tracks_command]
            found.append(
                TrajectorySegment(
                    joints, told_s[part], told_part, came_s[seen], header_s[seen], pos[seen]
                )
            )
    return [course for course in found if len(course.received_s) > 1]


def _joint_states(bag: BagReader, wanted: ConversionSpec, topics: object) -> str:
    """Return the topic of joint positions: the policy's observation, else the robot's own."""
    shown = [
        source.topic for source in wanted.sources.observe.values() if source.field == "position"
    ]
    own = [str(getattr(topics, "joint_states", ""))]
    for topic in shown + own:
        if bag.kinds.get(topic) == MsgType.JOINT_STATES.value:
            return topic
    raise DataError(
        "no joint states",
        where=bag.path,
        expected=" or ".join(dict.fromkeys(shown + own)),
        found=", ".join(bag.kinds) or "nothing",
    )


def _readings(bag: BagReader, topic: str, joints: tuple[str, ...]) -> tuple[Values, Values, Values]:
    def positions(reading: Reading) -> Values:
        return joint_positions(reading, joints, f"'{topic}'")

    came = list(bag.messages([topic]))
    pos = [read_message(bag, each, positions) for each in came]
    at_s = np.array([c.reading.stamp_s for c in came])
    return at_s, np.array([c.header_s for c in came]), np.array(pos)
