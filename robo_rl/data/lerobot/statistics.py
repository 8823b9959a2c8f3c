"""Statistics of a LeRobot dataset's columns, as its ``meta`` files hold them.

Shapes: L rows. Images are reduced to their channels, in [0, 1], of a sample of frames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}

Stats = dict[str, NDArray[Any]]


def column_stats(rows: NDArray[Any]) -> Stats:
    """Return the statistics of numbers (L, n), each (n,); ``count`` is (1,)."""
    values = rows.astype(np.float64).reshape(len(rows), -1)
    found = {
        "min": values.min(axis=0),
        "max": values.max(axis=0),
        "mean": values.mean(axis=0),
        "std": values.std(axis=0),
        "count": np.array([len(values)]),
    }
    return found | {n: np.quantile(values, q, axis=0) for n, q in QUANTILES.items()}


def image_stats(frames: NDArray[np.uint8]) -> Stats:
    """Return the statistics of frames (L, h, w, 3), each (3, 1, 1); ``count`` is (1,)."""
    pixels = frames.reshape(-1, frames.shape[-1]) / 255.0
    found = column_stats(pixels)
    shaped = {name: each.reshape(-1, 1, 1) for name, each in found.items() if name != "count"}
    return {**shaped, "count": np.array([len(frames)])}


def merged_stats(parts: Sequence[Mapping[str, NDArray[Any]]]) -> Stats:
    """Return the statistics of all rows, from those of episodes.

    Moments are exact. A quantile is the mean of the episodes' quantiles by their rows, as LeRobot
    aggregates them.
    """
    counts = np.array([int(part["count"][0]) for part in parts], dtype=np.float64)

    def over(name: str) -> NDArray[np.float64]:
        stacked = np.stack([np.asarray(part[name], dtype=np.float64) for part in parts])
        weight = counts.reshape(-1, *[1] * (stacked.ndim - 1)) / counts.sum()
        return (weight * stacked).sum(axis=0)

    mean = over("mean")
    spread = [part["std"] ** 2 + (part["mean"] - mean) ** 2 for part in parts]
    weight = counts / counts.sum()
    var = sum(w * each for w, each in zip(weight, spread, strict=True))
    return {
        "min": np.min([part["min"] for part in parts], axis=0),
        "max": np.max([part["max"] for part in parts], axis=0),
        "mean": mean,
        "std": np.sqrt(var),
        "count": np.array([int(counts.sum())]),
        **{name: over(name) for name in QUANTILES},
    }
