"""Marked episodes of a made-up world, in which success can be seen: a place beyond 1 is the end."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.train.pipeline.stage import Context, Report

OBS = ObsSpec(items={"place": TensorSpec(shape=(1,)), "speed": TensorSpec(shape=(2,))})
ACT = ActSpec(shape=(1,), rate_hz=20.0)
COLUMNS = {"phase": TensorSpec(shape=(), dtype="int64")}


def marked_episode(number: int, *, success: bool, hold: int = 1, behind: int = 0) -> dict[str, Any]:
    """Of 6 to 13 rows: before the end the place is below 0.8, at the end, for ``hold``, above 1.2.

    ``behind`` are rows behind the success, of any place, with which the episode goes on.
    """
    rng = np.random.default_rng(number)
    length = 6 + number % 8 + behind
    end = length - behind if success else length
    place = rng.uniform(-1.0, 0.8, (length, 1)).astype(np.float32)
    if success:
        place[end - hold : end] = rng.uniform(1.2, 2.0, (hold, 1))
    last = np.arange(length) == length - 1
    over = last & success & (not behind)
    return {
        "obs": {"place": place, "speed": rng.normal(size=(length, 2)).astype(np.float32)},
        "act": rng.normal(size=(length, 1)).astype(np.float32),
        "rew": over.astype(np.float32),
        "terminated": over,
        "truncated": last & ~over,
        "phase": np.arange(length) + number,
        "success": success,
        "seed": number,
        "meta": {"number": number},
    }


def marked_store(path: Path, episodes: int = 48, first: int = 0, hold: int = 1) -> ZarrStore:
    """Every third one of these fails."""
    store = empty_store(path)
    numbers = range(first, first + episodes)
    store.extend(marked_episode(n, success=bool(n % 3), hold=hold) for n in numbers)
    return store


def empty_store(path: Path, obs_spec: ObsSpec = OBS) -> ZarrStore:
    """Without an episode."""
    made = {"world": "made up"}
    return ZarrStore.create(path, obs_spec, ACT, made, columns=COLUMNS, chunk_rows=16)


def context(directory: Path, *stores: ZarrStore, **artifacts: Path) -> Context:
    """Of a stage behind these datasets and other artifacts."""
    directory.mkdir(exist_ok=True)
    kinds = [("dataset", store.path) for store in stores] + list(artifacts.items())
    earlier = [(path.parent, Report("made", artifacts={kind: path.name})) for kind, path in kinds]
    return Context(cast(Any, SimpleNamespace(seed=0)), directory, earlier)
