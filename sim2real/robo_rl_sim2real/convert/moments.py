"""The control periods of a bag: when each began, and what was commanded in it.

Shapes: n joints, in the order of the contract's actions. Times are seconds since the bag began.

A recording of ours has them as they were. In another's they are laid on a grid of the contract's
rate, on the recorder's clock, from the first command on; the command of a period is the last one
that was given before its end, for it answers what was observed when it began.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from robo_rl.errors import DataError
from robo_rl.robot import Robot
from robo_rl_sim2real.contract import commanded
from robo_rl_sim2real.convert.bags import Came, OpenBag
from robo_rl_sim2real.convert.wanted import Wanted
from robo_rl_sim2real.listener import By
from robo_rl_sim2real.messages import Kind
from robo_rl_sim2real.readings import Values
from robo_rl_sim2real.recording.topics import SENT, TICK
from robo_rl_sim2real.states import State


class Moment(NamedTuple):
    """A control period.

    Args:
        number: Its own; one that is missing was missed.
        at_s: When it began.
        sent: (n,) the command, None where none was sent.
        counts: Whether the policy or a human commanded, rather than the ramp of the beginning or a
            way to rest.
        human: Whether a human did.
    """

    number: int
    at_s: float
    sent: Values | None
    counts: bool
    human: bool


def moments(bag: OpenBag, wanted: Wanted) -> list[Moment]:
    """All of a bag, in order.

    Raises:
        DataError: Ticks are damaged or out of order, or a command is of other joints or not finite.
    """
    return list(_recorded(bag, wanted) if wanted.ours else _laid_out(bag, wanted))


def _recorded(bag: OpenBag, wanted: Wanted) -> Iterator[Moment]:
    sent = _sent(bag, wanted.contract.act.shape[-1]) if SENT in bag.kinds else {}
    last, resumes = None, False
    for came in bag.messages([TICK]):
        at_s = came.reading.stamp_s
        try:
            fields = came.fields
            number, state = int(fields["tick"]), State(fields["state"])
            reason, by = str(fields["reason"]), By(fields["by"])
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
        last, human = number, by is By.HUMAN
        resumes = human or (resumes and state is State.RAMPING)  # a hand that lets go ends nothing
        counts = not reason and (resumes or state is State.RUNNING)
        yield Moment(number, at_s, sent.get(at_s), counts, human)


def _sent(bag: OpenBag, size: int) -> dict[float, Values]:
    """When → what was sent."""
    found: dict[float, Values] = {}
    for came in bag.messages([SENT]):
        position = came.reading.fields.get("position", np.zeros(0))
        found[came.reading.stamp_s] = _checked(bag, came, position, size)
    return found


def commands(bag: OpenBag, wanted: Wanted) -> list[tuple[float, Values]]:
    """All commands (n,) of a bag, each with when it was given.

    In a recording of ours that is when its control period began.

    Raises:
        DataError: One is of other joints or not finite, or none is there.
    """
    if wanted.ours:
        return list(_sent(bag, wanted.contract.act.shape[-1]).items())
    topic, kind, order = _controller(wanted)
    if bag.kinds.get(topic, kind.value) != kind.value:
        raise DataError(
            f"topic '{topic}'", where=bag.path, expected=kind.value, found=bag.kinds[topic]
        )
    return [(c.reading.stamp_s, _command(bag, c, order)) for c in bag.messages([topic])]


def _laid_out(bag: OpenBag, wanted: Wanted) -> Iterator[Moment]:
    given = commands(bag, wanted)
    dt_s, first_s = wanted.dt_s, given[0][0]
    newest, number = 0, 0
    while (at_s := first_s + number * dt_s) <= given[-1][0]:
        while newest + 1 < len(given) and given[newest + 1][0] < at_s + dt_s - 1e-9:
            newest += 1
        came_s, command = given[newest]
        fresh = at_s - came_s <= wanted.max_age_s
        yield Moment(number, at_s, command, counts=fresh, human=False)
        number += 1


def _controller(wanted: Wanted) -> tuple[str, Kind, tuple[str, ...] | list[int]]:
    """Topic and interface of commands; joints of a trajectory, or where each comes in an array."""
    robot: Robot = wanted.sources.robot.build()
    names, out = commanded(wanted.contract, robot).names, wanted.sources.command
    if out.kind == "trajectory":
        return out.topic or robot.topics.trajectory, Kind.TRAJECTORY, names
    joints = out.joints or names
    if sorted(joints) != sorted(names):
        raise DataError("command.joints", expected=", ".join(names), found=", ".join(joints))
    return out.topic or robot.topics.command, Kind.ARRAY, [joints.index(name) for name in names]


def _command(bag: OpenBag, came: Came, order: tuple[str, ...] | list[int]) -> Values:
    fields, names = came.reading.fields, came.reading.names
    values = fields["data"] if "data" in fields else fields["positions"][-1:].ravel()
    values = _checked(bag, came, values, len(order))
    if isinstance(order, list):
        return values[order]
    if sorted(names) != sorted(order):
        raise _misfit(bag, came, expected=", ".join(order), found=", ".join(names))
    return values[[names.index(name) for name in order]]


def _checked(bag: OpenBag, came: Came, values: Values, size: int) -> Values:
    if values.shape != (size,):
        raise _misfit(bag, came, expected=f"{size} joints", found=len(values))
    if not np.isfinite(values).all():
        raise _misfit(bag, came, expected="finite numbers", found=values.tolist())
    return values


def _misfit(bag: OpenBag, came: Came, *, expected: Any, found: Any) -> DataError:
    what = f"command on '{came.topic}' at {came.reading.stamp_s:.3f} s"
    return DataError(what, where=bag.path, expected=expected, found=found)


def outcomes(bag: OpenBag, topic: str) -> list[tuple[float, bool | None]]:
    """When → whether an episode ended well; None where the next one began. Empty where unknown.

    Args:
        bag: Open.
        topic: A ``std_msgs/String`` of JSON, ``{"over": …, "success": …}``, or a ``std_msgs/Bool``
            that says success.

    Raises:
        DataError: It says something else.
    """
    if topic not in bag.kinds:
        return []
    found: list[tuple[float, bool | None]] = []
    for came in bag.messages([topic]):
        try:
            found.append((came.reading.stamp_s, _outcome(came)))
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"no outcome on '{topic}': {error}", where=bag.path) from None
    return found


def _outcome(came: Came) -> bool | None:
    data = came.reading.fields["data"]
    if data.dtype == np.bool_:
        return bool(data)
    said = came.fields
    return bool(said["success"]) if said["over"] else None
