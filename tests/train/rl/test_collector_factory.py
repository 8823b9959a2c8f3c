"""How many envs a run has where it is to find out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from small_runs import EXPERIMENT

from robo_rl.config.models import validate
from robo_rl.core.errors import DeviceError
from robo_rl.distributed.process_group import RankInfo
from robo_rl.env.mujoco.sim_env import SimEnv
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.rl import collector_factory
from robo_rl.train.rl.collector_factory import count_envs


def context(fit: int | None) -> Any:
    return SimpleNamespace(experiment=SimpleNamespace(capacity=lambda: fit))


@pytest.mark.parametrize(
    ("fit", "count"), [(None, 256), (1, 1), (1000, 512), (4096, 4096), (10**6, 16384)]
)
def test_auto_is_what_fits_in_powers_of_two(fit, count):
    assert count_envs(context(fit), "auto", None) == count


def test_auto_is_what_a_checkpoint_has_and_a_number_is_itself():
    assert count_envs(context(5000), "auto", 48) == 48
    assert count_envs(context(1), 100, 48) == 100


@pytest.mark.parametrize(("fit", "count"), [(5000, 4095), (3, 3), (2, 3), (None, 255)])
def test_auto_is_shared_out_evenly(monkeypatch: pytest.MonkeyPatch, fit: int | None, count: int):
    monkeypatch.setattr(collector_factory, "rank_info", lambda: RankInfo(0, 3))
    monkeypatch.setattr(collector_factory, "all_reduce_min", lambda number: number)
    assert count_envs(context(fit), "auto", None) == count
    with pytest.raises(
        DeviceError, match=r"not one env .* fits the memory for each of 3 processes"
    ):
        count_envs(context(0), "auto", None)


@pytest.mark.parametrize(
    ("fit", "group", "count"),
    [(2, 1, 4), (2, 2, 8), (5000, 6, 4080), (None, 6, 240), (None, 99, 396)],
)
def test_each_process_has_whole_groups(
    monkeypatch: pytest.MonkeyPatch, fit: int | None, group: int, count: int
):
    monkeypatch.setattr(collector_factory, "rank_info", lambda: RankInfo(0, 4))
    monkeypatch.setattr(collector_factory, "all_reduce_min", lambda number: number)
    assert count_envs(context(fit), "auto", None, group) == count
    says = f"not one group of {group + 1} envs .* fits the memory for each of 4 processes"
    with pytest.raises(DeviceError, match=says):
        count_envs(context(group), "auto", None, group + 1)


def test_not_one_env_that_fits_is_an_error():
    with pytest.raises(DeviceError, match="not one env of each shard fits"):
        count_envs(context(0), "auto", None)


def test_one_env_of_each_shard_fits_or_it_is_an_error():
    assert count_envs(context(32), "auto", None, 1, shards=32) == 32
    for group, shards in ((1, 32), (8, 4)):
        with pytest.raises(DeviceError, match=r"expected room for 32 envs.*found 31; lower shards"):
            count_envs(context(31), "auto", None, group, shards)


@pytest.mark.parametrize(("shards", "count"), [(0, 256), (3, 255), (4, 256)])
def test_each_shard_has_as_many(shards: int, count: int):
    assert count_envs(context(None), "auto", None, 1, shards) == count


def test_a_wrapper_has_the_room_of_the_simulator_inside(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(SimEnv, "capacity", lambda cfg, task: 77)
    plain = validate(EXPERIMENT, Experiment)
    inside = {"name": "latency", "env": EXPERIMENT.get("env", {"name": "sim"})}
    wrapped = validate({**EXPERIMENT, "env": inside}, Experiment)
    assert plain.capacity() == wrapped.capacity() == 77
