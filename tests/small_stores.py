"""A small dataset whose every row can be recomputed from the number of its episode."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.data.store.zarr_store import ZarrStore

OBS = ObsSpec(
    items={
        "joint_pos": TensorSpec(shape=(2,), unit="rad", names=("shoulder", "elbow")),
        "image": TensorSpec(shape=(2, 2, 3), dtype="uint8"),
    }
)
ACT = ActSpec(
    shape=(2,),
    unit="rad",
    names=("shoulder", "elbow"),
    low=(-1.5, float("-inf")),
    high=(1.5, float("inf")),
    rate_hz=20.0,
)
COLUMNS = {"phase": TensorSpec(shape=(), dtype="int64")}
CHUNK_ROWS = 8


def make_store(path: Path, **fields: Any) -> ZarrStore:
    """An empty store."""
    fields = {"columns": COLUMNS, "chunk_rows": CHUNK_ROWS} | fields
    return ZarrStore.create(path, OBS, ACT, {"task": "tiny"}, **fields)


def make_episode(index: int, length: int | None = None) -> dict[str, Any]:
    """Episode number ``index``: no row of it is zero, and none equals one of another episode."""
    length = length or episode_length(index)
    step = np.arange(length)
    value = (1 + index + step / 1000).astype(np.float32)
    return {
        "obs": {
            "joint_pos": np.stack([value, -value], axis=1),
            "image": np.full((length, 2, 2, 3), 1 + index % 255, np.uint8),
        },
        "act": np.stack([value * 2, value * 3], axis=1),
        "rew": value,
        "terminated": step == length - 1,
        "truncated": np.zeros(length, bool),
        "phase": step + 1,
        "success": index % 2 == 0,
        "seed": index,
        "meta": {"expert": "none"},
    }


def episode_length(index: int) -> int:
    """Lengths below, at and above the size of a chunk."""
    return (5, 8, 13, 1, 16)[index % 5]


def flat_rows(episode: dict[str, Any]) -> dict[str, np.ndarray]:
    """An episode's columns by the store's keys."""
    keys = ("act", "rew", "terminated", "truncated", "phase")
    obs = {f"obs.{name}": rows for name, rows in episode["obs"].items()}
    return obs | {key: episode[key] for key in keys}


def concatenated(indices: Iterable[int]) -> dict[str, np.ndarray]:
    """Array → the rows of these episodes, one after the other."""
    rows = [flat_rows(make_episode(index)) for index in indices]
    return {key: np.concatenate([part[key] for part in rows]) for key in rows[0]}
