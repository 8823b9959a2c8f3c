"""What is amiss in the graph of nodes and topics, by what it means for the robot."""

from __future__ import annotations

from typing import NamedTuple


class GraphProblems(NamedTuple):
    """Problems by their consequence; each is empty if there is none.

    Args:
        readings: The measurement is in doubt, such as readings of two sources.
        commands: No node receives the commands, so another can move the robot.
        others: The robot must stand, although it is measured and commanded.
    """

    readings: str = ""
    commands: str = ""
    others: str = ""

    @property
    def text(self) -> str:
        """All problems; empty for none."""
        return "; ".join(filter(None, (self.others, self.commands, self.readings)))

    @property
    def holding(self) -> str:
        """The problems that leave the measurement plausible; empty for none."""
        return "; ".join(filter(None, (self.others, self.commands)))
