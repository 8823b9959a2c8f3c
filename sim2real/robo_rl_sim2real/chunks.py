"""Which action of which chunk is due: chunks on the robot's clock.

Shapes: H actions of a chunk, A act_dim. Ticks count control periods. The real-time twin of
``robo_rl.env.chunk``, which executes chunks while the world waits; here it does not.

The j-th action of a chunk belongs to tick ``observed + j``, where ``observed`` is the tick whose
observation it rests on. So what the world went through while the policy was thinking is skipped by
how long that really took, and never guessed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from robo_rl.config import ConfigModel

Array = NDArray[np.float64]


class Merge(str, Enum):
    """What is due where several chunks speak of one tick.

    newest: The newest chunk's action. ensemble: A mean over all of them, older ones weighing more
    by exp(−``decay``·newer ones), as in ACT (Zhao et al. 2023, arXiv 2304.13705, section IV-B).
    soft: From the old chunk to the new one over the ticks on which both speak, by the weights of
    real-time chunking's soft mask (Black et al. 2025, arXiv 2506.07339, eq. 5).
    """

    NEWEST = "newest"
    ENSEMBLE = "ensemble"
    SOFT = "soft"


class Chunk(NamedTuple):
    """A chunk on the clock.

    Args:
        act: (H, A).
        observed: Tick of the observation that it rests on.
        arrived: Tick at which it was there.
        observed_s: When that observation was measured.
    """

    act: Array
    observed: int
    arrived: int
    observed_s: float

    @property
    def end(self) -> int:
        """The first tick that it says nothing of."""
        return self.observed + len(self.act)


class Due(NamedTuple):
    """The action (A,) of a tick, and when the oldest observation was measured that it rests on."""

    act: Array
    basis_s: float


class ChunkScheduler:
    """Chunks in, the action of each tick out.

    Args:
        cfg: See Config.
        exec_horizon: E: a new chunk is asked for so many ticks after the last one's observation.
    """

    class Config(ConfigModel):
        """How chunks are merged, and how much weight the past has.

        ``decay`` is per chunk (ensemble) or over the overlap (soft). ``ahead`` asks for the next
        chunk so many ticks early, so that a slow policy's answer is there in time.
        """

        merge: Merge = Merge.NEWEST
        decay: float = Field(default=0.1, ge=0.0)
        ahead: int = Field(default=0, ge=0)

    def __init__(self, cfg: Config, exec_horizon: int) -> None:
        self.cfg, self.exec_horizon = cfg, exec_horizon
        self._chunks: deque[Chunk] = deque()
        self._merge = _MERGES[cfg.merge]

    def clear(self) -> None:
        """Forget all chunks."""
        self._chunks.clear()

    def wants(self, tick: int) -> bool:
        """Whether a new chunk is to be asked for with the observation of this tick."""
        if not self._chunks:
            return True
        return tick - self._chunks[-1].observed >= self.exec_horizon - self.cfg.ahead

    def add(self, chunk: Chunk) -> None:
        """Take in a chunk; one that rests on no newer observation than the last is left out."""
        if self._chunks and chunk.observed <= self._chunks[-1].observed:
            return
        self._chunks.append(chunk)

    def due(self, tick: int) -> Due | None:
        """What is to be done at a tick; None where no chunk reaches it. Ticks must not fall."""
        while self._chunks and self._chunks[0].end <= tick and len(self._chunks) > 1:
            self._chunks.popleft()
        speaking = [c for c in self._chunks if c.observed <= tick < c.end]
        if not speaking:
            return None
        weights = self._merge(speaking, tick, self.cfg.decay)
        acts = np.stack([chunk.act[tick - chunk.observed] for chunk in speaking])
        used = [chunk.observed_s for chunk, w in zip(speaking, weights, strict=True) if w > 0]
        return Due(weights @ acts, min(used))


def _newest(chunks: list[Chunk], tick: int, decay: float) -> Array:
    del tick, decay
    return np.eye(len(chunks))[-1]


def _ensemble(chunks: list[Chunk], tick: int, decay: float) -> Array:
    """Older chunks weigh more: w_i ∝ exp(−decay·i), i = 0 the oldest."""
    del tick
    weights = np.exp(-decay * np.arange(len(chunks)))
    return weights / weights.sum()


def _soft(chunks: list[Chunk], tick: int, decay: float) -> Array:
    """The last two: the older one's weight falls from 1 to 0 over the ticks of both."""
    del decay
    weights = np.zeros(len(chunks))
    if len(chunks) == 1:
        return np.ones(1)
    old, new = chunks[-2], chunks[-1]
    left = (old.end - tick) / max(old.end - new.arrived + 1, 1)
    share = left * np.expm1(left) / np.expm1(1.0)
    weights[-2:] = share, 1.0 - share
    return weights


_MERGES: dict[Merge, Callable[[list[Chunk], int, float], Array]] = {
    Merge.NEWEST: _newest,
    Merge.ENSEMBLE: _ensemble,
    Merge.SOFT: _soft,
}
