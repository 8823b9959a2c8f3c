"""An episode whose reward and end are said anew; all else stays.

Shapes: L rows of the episode.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.data.store.commits import EpisodeRecord

_OBS = "obs."


def relabel(
    rows: Mapping[str, NDArray[Any]], record: EpisodeRecord, end: int | None
) -> dict[str, Any]:
    """The episode as ``ZarrStore.extend`` takes it.

    Args:
        rows: Array → (L, …), as ``ZarrStore.read`` gives them.
        record: Its seed and its meta stay.
        end: The row with which it succeeds: reward 1, terminated, and rows behind are left out.
            None: it fails, is paid nothing, and was cut behind its last row.
    """
    good, length = end is not None, record.length if end is None else end + 1
    kept = {key: column[:length] for key, column in rows.items()}
    last = np.arange(length) == length - 1
    said = {
        "rew": (last & good).astype(rows["rew"].dtype),
        "terminated": last & good,
        "truncated": last & (not good),
    }
    seen = {key[len(_OBS) :]: column for key, column in kept.items() if key.startswith(_OBS)}
    rest = {key: column for key, column in kept.items() if not key.startswith(_OBS)}
    about = {"success": good, "seed": record.seed, "meta": record.meta}
    return {"obs": seen, **rest, **said, **about}
