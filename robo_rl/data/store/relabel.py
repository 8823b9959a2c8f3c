"""Relabels reward and end of an episode and keeps all other data.

Shapes: L rows of the episode.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.data.store.commits import EpisodeRecord

LABEL = "label"
"""Entry of a store's description: the origin of relabelled rewards."""

_OBS = "obs."


def relabel(
    rows: Mapping[str, NDArray[Any]], record: EpisodeRecord, end: int | None
) -> dict[str, Any]:
    """Return the relabelled episode in the format of ``ZarrStore.extend``.

    Args:
        rows: Array → (L, …), from ``ZarrStore.read``.
        record: Record of the episode; seed and meta are kept.
        end: Row of the success: it gets reward 1 and terminates, and later rows are dropped.
            None marks a failure without reward, truncated after its last row.
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
