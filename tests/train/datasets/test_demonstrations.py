"""Demonstrations reach an algorithm that learns from them, and no other."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from small_policies import make_policy
from small_runs import EXPERIMENT

from robo_rl.algo.off_policy.sac import Sac
from robo_rl.algo.ppo.ppo import Ppo
from robo_rl.config.models import validate
from robo_rl.core import memory
from robo_rl.core.errors import ConfigError, DataError, DeviceError
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.train.checkpoint.policies import load_policy
from robo_rl.train.datasets import demonstrations
from robo_rl.train.datasets.demonstrations import demand_transition_memory, load_demonstrations
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.stage import Context, Report


def test_they_are_transitions_of_the_policys_chunks(road: Any, tmp_path: Path, generator):
    places = [road.directory / name for name in ("00-collect", "01-bc")]
    earlier = [(place, cast(Report, Report.read(place))) for place in places]
    context = Context(validate(EXPERIMENT, Experiment), tmp_path, earlier)
    policy = load_policy(places[1] / "policy")
    sac = Sac(Sac.Config(), policy, 8, generator)
    load_demonstrations(sac, policy, context)
    rows = ZarrStore.open(places[0] / "data.zarr").num_rows
    assert 0.9 * rows < sac.replay.num_demos <= rows
    batch = sac.replay.sample(32, generator)
    assert bool(batch.demo.all())
    assert batch.act.shape[1:] == (policy.horizon, policy.act_spec.size)
    full = batch.num_exec == policy.exec_horizon
    expected = torch.tensor(context.experiment.gamma) ** policy.exec_horizon
    torch.testing.assert_close(batch.discount[full], expected.expand(int(full.sum())))


def test_a_dataset_without_rewards_is_refused(road: Any, tmp_path: Path, generator):
    made = ZarrStore.open(road.directory / "00-collect" / "data.zarr")
    unpaid = ZarrStore.create(tmp_path / "data.zarr", made.obs_spec, made.act_spec, {})
    rows = made.read(None, made.episodes[:1])
    obs = {key[4:]: column for key, column in rows.items() if key.startswith("obs.")}
    rest = {name: rows[name] for name in ("act", "terminated", "truncated")}
    unpaid.append({"obs": obs, **rest, "rew": 0.0 * rows["rew"], "success": True})
    report = Report("dataset", artifacts={"dataset": "data.zarr"})
    context = Context(validate(EXPERIMENT, Experiment), tmp_path, [(tmp_path, report)])
    sac = Sac(Sac.Config(), load_policy(road.directory / "01-bc" / "policy"), 8, generator)
    with pytest.raises(DataError, match="holds no reward"):
        load_demonstrations(sac, sac.policy, context)
    assert sac.replay.num_demos == 0


def test_a_dataset_with_images_is_read_in_parts(monkeypatch):
    episodes = [SimpleNamespace(length=length) for length in (3, 3, 3, 9, 1)]
    spec = SimpleNamespace(image_names=("eye",), num_bytes=10)
    store: Any = SimpleNamespace(obs_spec=spec, episodes=episodes)
    monkeypatch.setattr(demonstrations, "_PART_BYTES", 61)
    parts = demonstrations._parts(store)
    assert parts == [{0, 1}, {2}, {3}, {4}]
    spec.image_names = ()
    assert demonstrations._parts(store) == [None]


def test_others_are_left_alone(road: Any, tmp_path: Path):
    """PPO, an algorithm that takes no demonstrations, and one without a dataset."""
    policy = load_policy(road.directory / "01-bc" / "policy")
    place = road.directory / "00-collect"
    experiment = validate(EXPERIMENT, Experiment)
    there = Context(experiment, tmp_path, [(place, cast(Report, Report.read(place)))])
    load_demonstrations(Ppo(Ppo.Config(), policy, 8, torch.Generator()), policy, there)
    takes_none = Sac.Config.model_validate({"replay": {"demo_fraction": 0.0}})
    for cfg, context in ((takes_none, there), (Sac.Config(), Context(experiment, tmp_path, []))):
        sac = Sac(cfg, policy, 8, torch.Generator())
        load_demonstrations(sac, policy, context)
        assert sac.replay.num_demos == 0


def test_settings_that_ask_for_a_dataset_are_refused_where_there_is_none(road: Any, tmp_path: Path):
    context = Context(validate(EXPERIMENT, Experiment), tmp_path, [])
    policy = load_policy(road.directory / "01-bc" / "policy")
    fields = {"dynamics_gap": {}, "replay": {"corrections": True}}
    sac = Sac(Sac.Config.model_validate(fields), policy, 8, torch.Generator())
    with pytest.raises(
        ConfigError, match=r"algo\.dynamics_gap, algo\.replay\.corrections: there is no dataset"
    ):
        load_demonstrations(sac, policy, context)


def test_decisions_that_do_not_fit_the_memory_twice_are_refused(monkeypatch: pytest.MonkeyPatch):
    policy = make_policy("flow_noise", 4)
    row = policy.obs_horizon * policy.env_spec.num_bytes
    monkeypatch.setattr(memory, "available_bytes", lambda: int(2 * 5000 * row / memory.SHARE) + 1)
    demand_transition_memory(5000, policy)
    with pytest.raises(DeviceError, match="too little memory for 5,001 logged decisions"):
        demand_transition_memory(5001, policy)
