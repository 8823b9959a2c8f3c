"""What lies between one who says and one who hears: latency, jitter, loss."""

from __future__ import annotations

import heapq
import itertools
from typing import Generic, TypeVar

import numpy as np
from pydantic import Field

from robo_rl.config.models import ConfigModel

_T = TypeVar("_T")


class NetworkDelay(Generic[_T]):
    """Messages on their way, by a clock that is handed in.

    Args:
        cfg: See Config.
        rng: Draws delays and losses.
    """

    class Config(ConfigModel):
        """How long messages take.

        Args:
            latency_s: Least delay.
            jitter_s: A uniform draw up to this comes on top; messages may overtake each other.
            loss: Share that never arrives.
        """

        latency_s: float = Field(default=0.0, ge=0.0)
        jitter_s: float = Field(default=0.0, ge=0.0)
        loss: float = Field(default=0.0, ge=0.0, le=1.0)

    def __init__(self, cfg: Config, rng: np.random.Generator) -> None:
        self.cfg, self.rng = cfg, rng
        self._under_way: list[tuple[float, int, _T]] = []
        self._number = itertools.count()

    def put(self, message: _T, now_s: float) -> None:
        """Send one off."""
        if self.rng.random() >= self.cfg.loss:
            due_s = now_s + self.cfg.latency_s + self.cfg.jitter_s * self.rng.random()
            heapq.heappush(self._under_way, (due_s, next(self._number), message))

    def due(self, now_s: float) -> list[_T]:
        """What has arrived by now, in the order of arrival."""
        found: list[_T] = []
        while self._under_way and self._under_way[0][0] <= now_s + 1e-9:
            found.append(heapq.heappop(self._under_way)[2])
        return found
