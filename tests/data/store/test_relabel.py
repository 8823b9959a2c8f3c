"""An episode whose end is said anew."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_stores import make_episode, make_store

from robo_rl.data.store.relabel import relabel


@pytest.mark.parametrize("end", [None, 0, 2, 4])
def test_it_is_cut_behind_its_end_and_all_else_stays(tmp_path: Path, end: int | None):
    store = make_store(tmp_path / "old.zarr")
    episode = make_episode(5, 5)
    record = store.append(episode)
    new = make_store(tmp_path / "new.zarr")
    found = new.append(relabel(store.read(), record, end))
    rows, length = new.read(), 5 if end is None else end + 1
    assert (found.length, found.success) == (length, end is not None)
    assert (found.seed, found.meta) == (record.seed, record.meta)
    assert rows["rew"].tolist() == [0.0] * (length - 1) + [float(end is not None)]
    last = [False] * (length - 1) + [True]
    assert rows["terminated"].tolist() == [each and end is not None for each in last]
    assert rows["truncated"].tolist() == [each and end is None for each in last]
    for key in ("obs.joint_pos", "obs.image", "act", "phase"):
        np.testing.assert_array_equal(rows[key], store.read()[key][:length])
