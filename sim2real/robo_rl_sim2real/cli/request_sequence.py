"""Requests that the command line submits to a node: ``--home``, then ``--activate``."""

from __future__ import annotations

from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.node.node import Node

_PATIENCE_S = 20.0


class RequestSequence:
    """Submits requests to a node one after another, each until it is granted or times out.

    It submits nothing after a stop, or after a request from another source.

    Args:
        node: The node.
        wanted: Requests in order; granted requests are removed.
    """

    def __init__(self, node: Node, wanted: list[str]) -> None:
        self._node, self.wanted, self._since_s = node, wanted, 0.0
        self._asking, self._made, self._granted = False, 0, 0
        self._every = max(round(0.5 / node.ticks.dt_s), 1)

    def poll(self) -> bool:
        """Advance after a tick; return False, because the sequence never ends a run."""
        node = self._node
        # a way home may be over within the period of its request
        granted = self._asking and node.requests.granted[self.wanted[0]] > self._granted
        if granted or node.runtime.state is not State.INACTIVE:
            self.wanted, self._since_s = self.wanted[self._asking :], node.age_s
            self._asking = False
        elif self.wanted and self._may and node.record.count % self._every == 0:
            self._asking, self._made = True, self._made + 1
            self._granted = node.requests.granted[self.wanted[0]]
            node.request(self.wanted[0])
        return False

    @property
    def _may(self) -> bool:
        node = self._node
        theirs = node.runtime.life.stop_count > 0 or node.requests.made > self._made
        return not theirs and node.age_s - self._since_s < _PATIENCE_S
