"""Which action of which chunk is due: chunks on the robot's clock.

Shapes: H actions of a chunk, A act_dim. Ticks count control periods. The real-time twin of
``robo_rl.env.chunk_env``, which executes chunks while the world waits; here it does not.

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

from robo_rl.bundle.session import PlannedActions
from robo_rl.config.models import ConfigModel

Array = NDArray[np.float64]


class MergeMode(str, Enum):
    """What is due where several chunks speak of one tick.

    newest: The newest chunk's action. ensemble: A mean over all of them, older ones weighing more
    by exp(−``decay``·newer ones), as in ACT (Zhao et al. 2023, arXiv 2304.13705, section IV-B).
    soft: From the old chunk to the new one over the ticks on which both speak, by the weights of
    real-time chunking's soft mask (Black et al. 2025, arXiv 2506.07339, eq. 5).
    inpaint: The newest chunk's; but the policy is given what the old one still has to say, with the
    same weights, and goes on from there (likewise; see ``robo_rl.policy.inpaint``).
    """

    NEWEST = "newest"
    ENSEMBLE = "ensemble"
    SOFT = "soft"
    INPAINT = "inpaint"


_REMEMBERED = 10
"""Answers whose delay the next one's is expected not to exceed."""


class Chunk(NamedTuple):
    """A chunk on the clock.

    Args:
        act: (H, A).
        observed_tick: Tick of the observation that it rests on.
        arrived_tick: Tick at which it was there.
        observed_s: When the oldest reading of that observation arrived.
        action_basis_s: (H,) likewise, of each action; empty where all rest on that observation alone.
    """

    act: Array
    observed_tick: int
    arrived_tick: int
    observed_s: float
    action_basis_s: tuple[float, ...] = ()

    @property
    def end(self) -> int:
        """The first tick that it says nothing of."""
        return self.observed_tick + len(self.act)

    def at(self, tick: int) -> Array:
        """Its action (A,) of a tick."""
        return self.act[tick - self.observed_tick]

    def basis_s(self, tick: int) -> float:
        """When the oldest reading arrived that this action rests on."""
        return (
            self.action_basis_s[tick - self.observed_tick]
            if self.action_basis_s
            else self.observed_s
        )


class DueAction(NamedTuple):
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

        ``decay`` is per chunk, of ``ensemble``. ``prefetch_ticks`` asks for the next chunk so many ticks
        early, so that a slow policy's answer is there in time.
        """

        merge: MergeMode = MergeMode.NEWEST
        """How a new chunk takes the place of the one that is played."""
        decay: float = Field(default=0.1, ge=0.0)
        """Weight decay per newer chunk where chunks are averaged."""
        prefetch_ticks: int = Field(default=0, ge=0)
        """Ticks by which the next chunk is asked for early."""

        @property
        def uses_inpainting(self) -> bool:
            """Whether the policy has to go on from what is planned."""
            return self.merge is MergeMode.INPAINT

    def __init__(self, cfg: Config, exec_horizon: int) -> None:
        self.cfg, self.exec_horizon = cfg, exec_horizon
        self._chunks: deque[Chunk] = deque()
        self._delays: deque[int] = deque(maxlen=_REMEMBERED)
        self._given: tuple[int, Array] | None = None

    @property
    def empty(self) -> bool:
        """Whether no chunk came since the beginning."""
        return not self._chunks

    def clear(self) -> None:
        """Forget all chunks, and how long answers took."""
        self._chunks.clear()
        self._delays.clear()
        self._given = None

    def wants_query(self, tick: int) -> bool:
        """Whether a new chunk is to be asked for with the observation of this tick."""
        if not self._chunks:
            return True
        return tick - self._chunks[-1].observed_tick >= self.exec_horizon - self.cfg.prefetch_ticks

    def add(self, chunk: Chunk) -> None:
        """Take in a chunk; one that rests on no newer observation than the last is left out."""
        if self._chunks and chunk.observed_tick <= self._chunks[-1].observed_tick:
            return
        self._delays.append(chunk.arrived_tick - chunk.observed_tick)
        if self._chunks and self.cfg.merge is MergeMode.SOFT:
            chunk = blend_chunks(self._chunks[-1], chunk)
        if self._given is not None and self._given[0] == chunk.observed_tick:
            chunk = with_basis_times(chunk, self._chunks[-1], self._given[1])
        self._chunks.append(chunk)

    def plan(self, tick: int) -> PlannedActions | None:
        """What is planned from a tick on, for the policy that is asked in it to go on from.

        None where it need not. The actions until its answer is there will have been done by then:
        so many as the slowest but one of the last answers took are kept as they are, for one that
        stalled says nothing of the next. Only for ticks in which chunks are carried out.
        """
        self._given = None
        if not self.cfg.uses_inpainting or not self._chunks or self._chunks[-1].end <= tick:
            return None
        old = self._chunks[-1]
        size, left = len(old.act), old.end - tick
        ticks = np.minimum(np.arange(size) + tick, old.end - 1)
        act = old.act[ticks - old.observed_tick]
        if not np.isfinite(act).all():
            return None
        weight = soft_mask(size, left, sorted(self._delays)[-2:][0])
        self._given = tick, weight
        return PlannedActions(act[None].astype(np.float32), weight[None].astype(np.float32))

    def action_at(self, tick: int) -> DueAction | None:
        """What is to be done at a tick; None where no chunk reaches it. Ticks must not fall."""
        while len(self._chunks) > 1 and self._chunks[0].end <= tick:
            self._chunks.popleft()
        speaking = [c for c in self._chunks if c.observed_tick <= tick < c.end]
        if not speaking:
            return None
        used = speaking if self.cfg.merge is MergeMode.ENSEMBLE else speaking[-1:]
        weights = np.exp(-self.cfg.decay * np.arange(len(used)))
        acts = np.stack([chunk.at(tick) for chunk in used])
        return DueAction(weights @ acts / weights.sum(), min(c.basis_s(tick) for c in used))


def blend_chunks(old: Chunk, new: Chunk) -> Chunk:
    """The new chunk, its actions on the ticks of both mixed with those of what was planned.

    The old one's weight is that of ``soft_mask``.
    """
    act, last = new.act.copy(), min(old.end, new.end)
    weight = soft_mask(len(act), old.end - new.observed_tick, new.arrived_tick - new.observed_tick)
    for tick in range(max(new.arrived_tick, new.observed_tick), last):
        share = weight[tick - new.observed_tick]
        act[tick - new.observed_tick] = share * old.at(tick) + (1.0 - share) * new.at(tick)
    passed = (
        np.arange(len(act)) < new.arrived_tick - new.observed_tick
    )  # what is not played rests on nothing
    return with_basis_times(new._replace(act=act), old, np.where(passed, 0.0, weight))


def with_basis_times(new: Chunk, old: Chunk, weight: Array) -> Chunk:
    """The new chunk, which knows what each action rests on: the old one's, both, or its own.

    Args:
        new: See above.
        old: Had a say in it.
        weight: (H,), the old one's: with 1 an action is its.
    """
    rests = [new.observed_s] * len(new.act)
    for place in np.flatnonzero(weight > 0.0).tolist():
        older_s = old.basis_s(min(new.observed_tick + place, old.end - 1))
        rests[place] = older_s if weight[place] >= 1.0 else min(older_s, new.observed_s)
    return new._replace(action_basis_s=tuple(rests))


def soft_mask(size: int, left: int, delay: int) -> Array:
    """The old chunk's weight (H,) on the ticks of a new one (Black et al. 2025, eq. 5).

    1 on the first ``delay`` of them, which are over by the time the new one is there; then
    c·(eᶜ − 1)/(e − 1) where c falls evenly from 1 to 0 over those that the old one has left.

    Args:
        size: H.
        left: How many ticks from the new chunk's first on the old one still speaks of.
        delay: How many of them pass before the new one is there.
    """
    tick = np.arange(size)
    c = np.clip((left - tick) / max(left - delay + 1, 1), 0.0, 1.0)
    weight = c * np.expm1(c) / np.expm1(1.0)
    return np.where(tick < min(delay, left), 1.0, weight)
