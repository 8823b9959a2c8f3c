"""Which action of which chunk is due: chunks on the robot's clock.

Shapes: H actions of a chunk, A act_dim. Ticks count control periods. The real-time twin of
``robo_rl.env.chunk``, which executes chunks while the world waits; here it does not.

The j-th action of a chunk belongs to tick ``observed + j``, where ``observed`` is the tick whose
observation it rests on. So what the world went through while the policy was thinking is skipped by
how long that really took, and never guessed.
"""

from __future__ import annotations

from collections import deque
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
        observed_s: When the oldest reading of that observation arrived.
        mixed: Up to which tick an older chunk has a say in it, and that one's ``observed_s``.
    """

    act: Array
    observed: int
    arrived: int
    observed_s: float
    mixed: tuple[int, float] = (0, 0.0)

    @property
    def end(self) -> int:
        """The first tick that it says nothing of."""
        return self.observed + len(self.act)

    def at(self, tick: int) -> Array:
        """Its action (A,) of a tick."""
        return self.act[tick - self.observed]

    def basis_s(self, tick: int) -> float:
        """When the oldest reading arrived that this action rests on."""
        until, older_s = self.mixed
        return min(self.observed_s, older_s) if tick < until else self.observed_s


class Due(NamedTuple):
    """The action (A,) of a tick, and when the oldest reading arrived that it rests on."""

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

        ``decay`` is per chunk, of ``ensemble``. ``ahead`` asks for the next chunk so many ticks
        early, so that a slow policy's answer is there in time.
        """

        merge: Merge = Merge.NEWEST
        decay: float = Field(default=0.1, ge=0.0)
        ahead: int = Field(default=0, ge=0)

    def __init__(self, cfg: Config, exec_horizon: int) -> None:
        self.cfg, self.exec_horizon = cfg, exec_horizon
        self._chunks: deque[Chunk] = deque()

    @property
    def empty(self) -> bool:
        """Whether no chunk came since the beginning."""
        return not self._chunks

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
        if self._chunks and self.cfg.merge is Merge.SOFT:
            chunk = blended(self._chunks[-1], chunk)
        self._chunks.append(chunk)

    def due(self, tick: int) -> Due | None:
        """What is to be done at a tick; None where no chunk reaches it. Ticks must not fall."""
        while len(self._chunks) > 1 and self._chunks[0].end <= tick:
            self._chunks.popleft()
        speaking = [c for c in self._chunks if c.observed <= tick < c.end]
        if not speaking:
            return None
        used = speaking if self.cfg.merge is Merge.ENSEMBLE else speaking[-1:]
        weights = np.exp(-self.cfg.decay * np.arange(len(used)))
        acts = np.stack([chunk.at(tick) for chunk in used])
        return Due(weights @ acts / weights.sum(), min(c.basis_s(tick) for c in used))


def blended(old: Chunk, new: Chunk) -> Chunk:
    """The new chunk, its actions on the ticks of both mixed with those of what was planned.

    The old one's weight falls with the ticks that it has left, c·(eᶜ − 1)/(e − 1) where c runs from
    1 to 0.
    """
    act, last = new.act.copy(), min(old.end, new.end)
    for tick in range(max(new.arrived, new.observed), last):
        left = (old.end - tick) / (old.end - new.arrived + 1)
        share = left * np.expm1(left) / np.expm1(1.0)
        act[tick - new.observed] = share * old.at(tick) + (1.0 - share) * new.at(tick)
    return new._replace(act=act, mixed=(last, old.observed_s))
