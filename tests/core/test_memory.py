"""Memory is compared with what there is, and what does not fit is one line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from small_images import OBS, make_seeing_policy

from robo_rl.core import memory
from robo_rl.core.errors import DeviceError
from robo_rl.core.memory import demand_disk
from robo_rl.train.rl.collector_factory import demand_rollout_memory


def test_a_containers_limit_counts_where_it_is_lower(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    whole = memory.available_bytes()
    assert whole is None or whole > 1 << 20
    (tmp_path / "memory.max").write_text("5000000\n")
    (tmp_path / "memory.current").write_text("3000000\n")
    (tmp_path / "memory.stat").write_text("anon 1000000\ninactive_file 2000000\n")
    assert memory.available_bytes() == 4_000_000  # the cache of files gives way
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.available_bytes() != 4_000_000


def test_an_observations_bytes_are_those_of_its_tensors():
    assert OBS.num_bytes == 3 * 4 + 3 * 36 * 44 + 40 * 40 + 2 * 4


def test_what_does_not_fit_is_refused_before_it_is_allocated(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 1_000_000_000)
    policy = make_seeing_policy(finetune_steps=1)
    demand_rollout_memory(policy, 1000)
    with pytest.raises(
        DeviceError, match=r"a rollout of 100,000 decisions; expected 2.5 GB"
    ) as caught:
        demand_rollout_memory(policy, 100_000)
    assert "lower num_envs" in str(caught.value)


def test_a_disk_without_room_is_told_and_files_that_are_there_count(tmp_path: Path, monkeypatch):
    folder = tmp_path / "new" / "replay"
    free = shutil.disk_usage(tmp_path)._replace(free=1_000_000)
    monkeypatch.setattr(memory.shutil, "disk_usage", lambda path: free)
    demand_disk(800_000, folder, "a buffer", "less")
    with pytest.raises(DeviceError, match=r"too little disk space for a buffer.*0.0 GB free"):
        demand_disk(1_000_000, folder, "a buffer", "less")
    folder.mkdir(parents=True)
    (folder / "some").write_bytes(bytes(200_000))
    demand_disk(1_000_000, folder, "a buffer", "less")
