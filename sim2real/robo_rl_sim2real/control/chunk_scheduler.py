"""Selects the action that is due from the policy's chunks, on the robot's clock.

Shapes: H actions of a chunk, A act_dim. Ticks count control periods. This is the real-time
counterpart of ``robo_rl.env.chunk_env``, whose world waits for the policy.

The j-th action of a chunk belongs to tick ``observed_tick + j``, where ``observed_tick`` is the
tick of its observation. The scheduler therefore skips as many actions as the measured inference
time covers, without any estimate.
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
    """How the action of a tick is chosen if several chunks cover it.

    newest: The newest chunk's action. ensemble: A mean over all chunks, with weights
    exp(−``decay``·i), i = 0 for the oldest, as in ACT (Zhao et al. 2023, arXiv 2304.13705, section
    IV-B). soft: A blend from the old chunk to the new one over their common ticks, with the weights
    of real-time chunking's soft mask (Black et al. 2025, arXiv 2506.07339, eq. 5). inpaint: The
    newest chunk's action. The policy receives the rest of the old chunk with the same weights and
    inpaints the new one (same paper; see ``robo_rl.policy.inpaint``).
    """

    NEWEST = "newest"
    ENSEMBLE = "ensemble"
    SOFT = "soft"
    INPAINT = "inpaint"


_REMEMBERED = 10
"""Number of recent delays that predict the next one."""


class Chunk(NamedTuple):
    """A chunk on the robot's clock.

    Args:
        act: (H, A).
        observed_tick: Tick of the observation.
        arrived_tick: Tick in which the chunk arrived.
        observed_s: Arrival time of the oldest reading in that observation.
        action_basis_s: (H,) such a time per action; empty if all actions depend on that observation
            only.
        instruction: Instruction of the observation; empty for none.
    """

    act: Array
    observed_tick: int
    arrived_tick: int
    observed_s: float
    action_basis_s: tuple[float, ...] = ()
    instruction: str = ""

    @property
    def end(self) -> int:
        """The first tick after the chunk."""
        return self.observed_tick + len(self.act)

    def at(self, tick: int) -> Array:
        """Return the action (A,) of a tick."""
        return self.act[tick - self.observed_tick]

    def basis_s(self, tick: int) -> float:
        """Return the arrival time of the oldest reading that the action of a tick depends on."""
        return (
            self.action_basis_s[tick - self.observed_tick]
            if self.action_basis_s
            else self.observed_s
        )


class DueAction(NamedTuple):
    """The action (A,) of a tick, the arrival time of its oldest reading, and its instruction."""

    act: Array
    basis_s: float
    instruction: str = ""


class ChunkScheduler:
    """Collects chunks and returns the action of each tick.

    Args:
        cfg: See Config.
        exec_horizon: E, the number of ticks between an observation and the next request of a chunk.
    """

    class Config(ConfigModel):
        """How chunks are merged.

        ``decay`` applies to ``ensemble``, per chunk. ``prefetch_ticks`` requests the next chunk
        that many ticks early, so that a slow policy's chunk arrives in time.
        """

        merge: MergeMode = MergeMode.NEWEST
        """How a new chunk replaces the one being executed."""
        decay: float = Field(default=0.1, ge=0.0)
        """Weight decay per newer chunk if chunks are averaged."""
        prefetch_ticks: int = Field(default=0, ge=0)
        """Number of ticks by which the next chunk is requested early."""

        @property
        def uses_inpainting(self) -> bool:
            """Whether the policy inpaints from the planned actions."""
            return self.merge is MergeMode.INPAINT

    def __init__(self, cfg: Config, exec_horizon: int) -> None:
        self.cfg, self.exec_horizon = cfg, exec_horizon
        self._chunks: deque[Chunk] = deque()
        self._delays: deque[int] = deque(maxlen=_REMEMBERED)
        self._given: tuple[int, Array] | None = None

    @property
    def empty(self) -> bool:
        """Whether no chunk has arrived since activation."""
        return not self._chunks

    def clear(self) -> None:
        """Discard all chunks and the recorded delays."""
        self._chunks.clear()
        self._delays.clear()
        self._given = None

    def follows(self, instruction: str) -> bool:
        """Return whether the newest chunk is of this instruction."""
        return bool(self._chunks) and self._chunks[-1].instruction == instruction

    def wants_query(self, tick: int, instruction: str = "") -> bool:
        """Return whether to request a new chunk with this tick's observation and instruction."""
        if not self._chunks or self._chunks[-1].instruction != instruction:
            return True
        return tick - self._chunks[-1].observed_tick >= self.exec_horizon - self.cfg.prefetch_ticks

    def add(self, chunk: Chunk) -> None:
        """Add a chunk; ignore it if its observation is not newer than the last chunk's.

        A chunk of another instruction replaces all chunks before it, and is not merged with them.
        """
        if self._chunks and chunk.observed_tick <= self._chunks[-1].observed_tick:
            return
        self._delays.append(chunk.arrived_tick - chunk.observed_tick)
        if self._chunks and self._chunks[-1].instruction != chunk.instruction:
            self._chunks.clear()
        if self._chunks and self.cfg.merge is MergeMode.SOFT:
            chunk = blend_chunks(self._chunks[-1], chunk)
        if self._given is not None and self._given[0] == chunk.observed_tick:
            chunk = with_basis_times(chunk, self._chunks[-1], self._given[1])
        self._chunks.append(chunk)

    def plan(self, tick: int, instruction: str = "") -> PlannedActions | None:
        """Return the planned actions from a tick on, as input of the policy's inpainting.

        None if the policy does not inpaint, or no action is planned for this instruction. The
        actions up to the expected arrival of the new chunk are kept unchanged. The expected delay
        is the second-largest recent one, so that a single stall does not count. Valid only for
        ticks in which chunks are executed.
        """
        self._given = None
        if not self.cfg.uses_inpainting or not self._chunks or self._chunks[-1].end <= tick:
            return None
        old = self._chunks[-1]
        if old.instruction != instruction:
            return None
        size, left = len(old.act), old.end - tick
        ticks = np.minimum(np.arange(size) + tick, old.end - 1)
        act = old.act[ticks - old.observed_tick]
        if not np.isfinite(act).all():
            return None
        weight = soft_mask(size, left, sorted(self._delays)[-2:][0])
        self._given = tick, weight
        return PlannedActions(act[None].astype(np.float32), weight[None].astype(np.float32))

    def action_at(self, tick: int) -> DueAction | None:
        """Return the action of a tick; None if no chunk covers it. Ticks must not decrease."""
        while len(self._chunks) > 1 and self._chunks[0].end <= tick:
            self._chunks.popleft()
        speaking = [c for c in self._chunks if c.observed_tick <= tick < c.end]
        if not speaking:
            return None
        used = speaking if self.cfg.merge is MergeMode.ENSEMBLE else speaking[-1:]
        weights = np.exp(-self.cfg.decay * np.arange(len(used)))
        acts = np.stack([chunk.at(tick) for chunk in used])
        basis_s = min(chunk.basis_s(tick) for chunk in used)
        return DueAction(weights @ acts / weights.sum(), basis_s, used[-1].instruction)


def blend_chunks(old: Chunk, new: Chunk) -> Chunk:
    """Return the new chunk with the actions on common ticks blended with the old chunk's.

    The old chunk's weight is ``soft_mask``.
    """
    act, last = new.act.copy(), min(old.end, new.end)
    weight = soft_mask(len(act), old.end - new.observed_tick, new.arrived_tick - new.observed_tick)
    for tick in range(max(new.arrived_tick, new.observed_tick), last):
        share = weight[tick - new.observed_tick]
        act[tick - new.observed_tick] = share * old.at(tick) + (1.0 - share) * new.at(tick)
    passed = (
        np.arange(len(act)) < new.arrived_tick - new.observed_tick
    )  # passed actions have no basis
    return with_basis_times(new._replace(act=act), old, np.where(passed, 0.0, weight))


def with_basis_times(new: Chunk, old: Chunk, weight: Array) -> Chunk:
    """Return the new chunk with ``action_basis_s`` set by the old chunk's weights.

    Args:
        new: The new chunk.
        old: The chunk that it is blended with.
        weight: (H,) weight of the old chunk; at 1 the action is the old chunk's alone.
    """
    rests = [new.observed_s] * len(new.act)
    for place in np.flatnonzero(weight > 0.0).tolist():
        older_s = old.basis_s(min(new.observed_tick + place, old.end - 1))
        rests[place] = older_s if weight[place] >= 1.0 else min(older_s, new.observed_s)
    return new._replace(action_basis_s=tuple(rests))


def soft_mask(size: int, left: int, delay: int) -> Array:
    """Return the old chunk's weight (H,) on the ticks of a new one (Black et al. 2025, eq. 5).

    The weight is 1 on the first ``delay`` ticks, which pass before the new chunk arrives. Then it
    is c·(eᶜ − 1)/(e − 1), where c falls linearly from 1 to 0 over the old chunk's remaining ticks.

    Args:
        size: H.
        left: Number of ticks that the old chunk covers, from the new chunk's first tick on.
        delay: Number of ticks that pass before the new chunk arrives.
    """
    tick = np.arange(size)
    c = np.clip((left - tick) / max(left - delay + 1, 1), 0.0, 1.0)
    weight = c * np.expm1(c) / np.expm1(1.0)
    return np.where(tick < min(delay, left), 1.0, weight)
