"""Statistics of a dataset that lacks observations of its env: start states give their ranges."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import torch
from small_stores import OBS, make_episode, make_store

from robo_rl.core.spec import ObsSpec, TensorSpec
from robo_rl.data.dataset import WindowDataset
from robo_rl.train.datasets.start_states import (
    START_STATES,
    observations_and_starts,
    stats_with_starts,
)

MORE = ObsSpec(items={**OBS.items, "goal": TensorSpec(shape=(3,))})


def context(sees: tuple[str, ...], obs_spec: ObsSpec, asked: list[int]) -> Any:
    """A context whose env starts with goals from −2 to 2, and notes its sizes."""

    def make_env(num_envs: int) -> Any:
        asked.append(num_envs)
        starts = {"goal": torch.linspace(-2.0, 2.0, num_envs)[:, None].expand(-1, 3)}
        return SimpleNamespace(obs_spec=obs_spec, reset=lambda seed: starts, close=lambda: None)

    policy = SimpleNamespace(cfg=SimpleNamespace(sees=sees))
    experiment = SimpleNamespace(make_env=make_env, policy=policy)
    return cast(Any, SimpleNamespace(experiment=experiment, seed=0))


def test_missing_observations_have_the_range_of_start_states(tmp_path: Path):
    store = make_store(tmp_path / "data.zarr")
    store.append(make_episode(0))
    asked: list[int] = []
    obs_spec, starts = observations_and_starts(context(("joint_pos",), MORE, asked), store, 0)
    assert obs_spec == MORE
    assert asked == [1, START_STATES]
    data = WindowDataset(store, 1, 2)
    stats, plain = stats_with_starts(data, "", starts, widen=False), data.stats()
    assert stats.keys["obs.goal"].low.tolist() == [-2.0] * 3
    assert stats.keys["obs.goal"].high.tolist() == [2.0] * 3
    assert all(torch.equal(stats.keys[key].low, each.low) for key, each in plain.keys.items())


def test_whole_data_need_no_start_states(tmp_path: Path):
    store = make_store(tmp_path / "data.zarr")
    asked: list[int] = []
    assert observations_and_starts(context((), OBS, asked), store, 0) == (store.obs_spec, {})
    assert observations_and_starts(context(("joint_pos",), OBS, asked), store, 0) == (OBS, {})
    assert asked == [1, 1]


def test_observations_that_the_env_lacks_are_not_read(tmp_path: Path):
    """A policy of all observations sees what its env has, in the order of the data."""
    store = make_store(tmp_path / "data.zarr")
    first, *_ = store.obs_spec.items
    fewer = ObsSpec(items={first: store.obs_spec.items[first]})
    assert len(store.obs_spec.items) > 1
    assert observations_and_starts(context((), fewer, []), store, 0) == (fewer, {})
