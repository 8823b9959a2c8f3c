"""Simulated network between sender and receiver: latency, jitter and loss."""

from __future__ import annotations

import heapq
import itertools
from typing import Generic, TypeVar

import numpy as np
from pydantic import Field

from robo_rl.config.models import ConfigModel

_T = TypeVar("_T")


class NetworkDelay(Generic[_T]):
    """A queue of delayed messages; the caller passes in the time.

    Args:
        cfg: See Config.
        rng: Random generator of delays and losses.
    """

    class Config(ConfigModel):
        """Latency, jitter and loss.

        Args:
            latency_s: Smallest delay.
            jitter_s: Upper bound of a uniform additional delay; messages may overtake each other.
            loss: Share of lost messages.
        """

        latency_s: float = Field(default=0.0, ge=0.0)
        jitter_s: float = Field(default=0.0, ge=0.0)
        loss: float = Field(default=0.0, ge=0.0, le=1.0)

    def __init__(self, cfg: Config, rng: np.random.Generator) -> None:
        self.cfg, self.rng = cfg, rng
        self._under_way: list[tuple[float, int, _T]] = []
        self._number = itertools.count()

    def put(self, message: _T, now_s: float) -> None:
        """Send a message."""
        if self.rng.random() >= self.cfg.loss:
            due_s = now_s + self.cfg.latency_s + self.cfg.jitter_s * self.rng.random()
            heapq.heappush(self._under_way, (due_s, next(self._number), message))

    def due(self, now_s: float) -> list[_T]:
        """Return the messages that have arrived by now, in the order of arrival."""
        found: list[_T] = []
        while self._under_way and self._under_way[0][0] <= now_s + 1e-9:
            found.append(heapq.heappop(self._under_way)[2])
        return found
