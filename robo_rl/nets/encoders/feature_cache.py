"""Features of frames that a frozen network has seen, as float16 rows in memory.

A frame is known by a multilinear hash of its bytes modulo 2^64 (Dietzfelbinger 1996, STACS,
"Universal hashing and k-wise independent random variables via integer arithmetic without primes"):
two frames share one with a probability of at most 2^-56.

Shapes: N frames, W features of a frame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor

_SEED = 20_210_429
_HASHED_AT_ONCE = 64
"""Frames that are widened to integers of 64 bits at once."""


class FeatureCache:
    """A ring of rows on one device: the oldest gives way to the newest.

    Copies of a network share its cache, since frozen weights are equal; a network that loads
    weights takes a new one.

    Args:
        frames: Rows that it holds at most; 0 keeps none.
    """

    def __init__(self, frames: int) -> None:
        self.frames = frames
        self.clear()

    def clear(self) -> None:
        """Remove all rows."""
        self._slot_of: dict[int, int] = {}
        self._key_at: list[int] = []
        self._next = 0
        self._rows: Tensor | None = None

    def __len__(self) -> int:
        return len(self._slot_of)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        del memo
        return self

    def find(self, frames: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the features of frames, and compute those that are not held.

        Args:
            frames: (N, C, h, w) uint8.
            compute: Maps frames to (N, W) float16.
        """
        if self._rows is not None and self._rows.device != frames.device:
            self.clear()
        keys = frame_hashes(frames)
        first = {key: row for row, key in reversed(list(enumerate(keys)))}
        fresh = {key: row for key, row in first.items() if key not in self._slot_of}
        if not keys or len(first) > self.frames:
            return compute(frames)
        made = compute(frames[list(fresh.values())]) if fresh else None
        found = self._gather(keys, list(fresh), made, frames.device)
        if made is not None:
            self._keep(list(fresh), made)
        return found

    def _gather(
        self, keys: list[int], fresh: list[int], made: Tensor | None, device: torch.device
    ) -> Tensor:
        """Return the rows of keys, from those held and those just made."""
        held = 0 if self._rows is None else len(self._rows)
        place = {key: held + row for row, key in enumerate(fresh)}
        index = torch.tensor([place.get(key, self._slot_of.get(key)) for key in keys])
        parts = [rows for rows in (self._rows, made) if rows is not None]
        return _select(parts, index.to(device))

    def _keep(self, keys: list[int], rows: Tensor) -> None:
        for key in keys:
            slot = self._next
            self._next = (slot + 1) % self.frames
            if slot < len(self._key_at):
                del self._slot_of[self._key_at[slot]]
                self._key_at[slot] = key
            else:
                self._key_at.append(key)
            self._slot_of[key] = slot
        self._grow(rows)
        assert self._rows is not None
        self._rows[torch.tensor([self._slot_of[key] for key in keys], device=rows.device)] = rows

    def _grow(self, rows: Tensor) -> None:
        """Make room for the rows that are named, twice as much as before."""
        have = 0 if self._rows is None else len(self._rows)
        if len(self._key_at) <= have:
            return
        size = min(self.frames, max(len(self._key_at), 2 * have, 64))
        larger = rows.new_zeros(size, rows.shape[1])
        if self._rows is not None:
            larger[:have] = self._rows
        self._rows = larger


def frame_hashes(frames: Tensor) -> list[int]:
    """Return the hash of each frame (N, C, h, w) uint8; the host waits for the device once."""
    flat = frames.flatten(1)
    factors = torch.randint(
        -(2**63), 2**63 - 1, (flat.shape[1],), generator=torch.Generator().manual_seed(_SEED)
    )
    factors = factors.to(flat.device)
    parts = [(part.long() * factors).sum(dim=1) for part in flat.split(_HASHED_AT_ONCE)]
    return torch.cat(parts).tolist() if parts else []


def _select(parts: list[Tensor], index: Tensor) -> Tensor:
    """Return rows of the concatenation of the parts, without building it."""
    out = parts[-1].new_empty(len(index), parts[-1].shape[1])
    start = 0
    for part in parts:
        mine = (index >= start) & (index < start + len(part))
        out[mine] = part[index[mine] - start]
        start += len(part)
    return out
