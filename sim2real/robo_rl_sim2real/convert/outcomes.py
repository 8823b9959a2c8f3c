"""The outcomes of episodes in a bag, and the starts of episodes if the bag has them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from robo_rl.core.errors import DataError
from robo_rl.core.labels import as_label
from robo_rl_sim2real.convert.bag_reader import BagMessage, BagReader

_NUMBER = "episode"
"""Key of the episode's number, which the simulated robot gives with starts and outcomes."""


class Outcomes(NamedTuple):
    """The outcomes of a recording.

    Args:
        told: (time, success) of episode ends, in order; None for the start of an episode.
        numbered: Whether a message has the number of its episode. Such a publisher also reports
            every start, but the recording may lack it.
    """

    told: list[tuple[float, bool | None]]
    numbered: bool = False

    @property
    def tells_starts(self) -> bool:
        """Whether an episode begins only at its start message, and not after each outcome."""
        return self.numbered or any(success is None for _, success in self.told)


def read_outcomes(bag: BagReader, topic: str) -> Outcomes:
    """Return the outcomes in a bag; none if the topic is not in it.

    Args:
        bag: Open bag.
        topic: A ``std_msgs/String`` of JSON, ``{"over": …, "success": …}``, or a ``std_msgs/Bool``
            of the success.

    Raises:
        DataError: The messages have another format.
    """
    told, numbered = list[tuple[float, bool | None]](), False
    for came in bag.messages([topic]) if topic in bag.kinds else ():
        try:
            said = _said(came)
            success = as_label(said["success"]) if as_label(said["over"]) else None
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"no outcome on '{topic}': {error}", where=bag.path) from None
        told.append((came.reading.stamp_s, success))
        numbered = numbered or _NUMBER in said
    return Outcomes(told, numbered)


def _said(came: BagMessage) -> dict[str, Any]:
    """Return the fields of a message; a flag is the outcome of an episode that is over."""
    data = came.reading.fields["data"]
    return {"over": True, "success": bool(data)} if data.dtype == np.bool_ else came.fields
