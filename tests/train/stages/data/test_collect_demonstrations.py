"""Demonstrations: whole episodes, worlds that are lost, and resuming at any episode."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from small_runs import EXPERIMENT
from torch import Tensor

from robo_rl.api.env import Step
from robo_rl.api.task import Demonstration
from robo_rl.config.models import validate
from robo_rl.core.errors import DataError, PluginError
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.stage import Context
from robo_rl.train.stages.data import collect_demonstrations as stage
from robo_rl.train.stages.data.collect_demonstrations import CollectDemonstrations

OBS = ObsSpec(items={"pos": TensorSpec(shape=(1,))})
ACT = ActSpec(shape=(1,), rate_hz=20.0)
NUM_ENVS, LIMIT = 4, 5


class Expert:
    """Walks by one a step, with a generator by up to two; knows which envs began anew."""

    def __init__(self, num_envs: int) -> None:
        self.walked = torch.full((num_envs,), -1.0)
        self.generator: torch.Generator | None = None
        self.resets: list[list[int]] = []

    def reset(self, ids: Tensor) -> None:
        self.resets.append(ids.tolist())
        self.walked[ids] = 0.0

    def act(self, view: Any) -> Demonstration | Tensor:
        assert torch.equal(view.elapsed, self.walked), "the expert was not told of a new episode"
        self.walked += 1.0
        label = torch.ones(len(self.walked), 1)
        if self.generator is None:
            return label
        return Demonstration(label + torch.rand(label.shape, generator=self.generator), label)


class Line:
    """Env b begins at a random place and ends after 2 + b steps, at most LIMIT, with success if b
    is even; env ``lost`` loses its world at a step.
    """

    obs_spec, act_spec = OBS, ACT
    dt_s, max_episode_steps, device = 0.05, LIMIT, torch.device("cpu")

    def __init__(self, num_envs: int, lost: dict[int, int]) -> None:
        self.num_envs, self.lost = num_envs, lost
        self.task = self

    def expert(self, num_envs: int, generator: torch.Generator, noise: float) -> Expert:
        del generator, noise
        self.demonstrator = Expert(num_envs)
        return self.demonstrator

    @property
    def view(self) -> SimpleNamespace:
        return SimpleNamespace(elapsed=self.elapsed)

    def reset(self, seed: int | None = None) -> dict[str, Tensor]:
        assert seed is not None
        generator = torch.Generator().manual_seed(seed)
        self.pos = torch.rand(self.num_envs, generator=generator)
        self.elapsed = torch.zeros(self.num_envs)
        return {"pos": self.pos[:, None].clone()}

    def step(self, act: Tensor) -> Step:
        gone = torch.tensor([self.elapsed[b] == self.lost.get(b, -1) for b in range(self.num_envs)])
        self.pos, self.elapsed = self.pos + act[:, 0], self.elapsed + 1
        ids = torch.arange(self.num_envs)
        over = (self.elapsed >= (2 + ids).clamp(max=LIMIT)) & ~gone
        next_obs = {"pos": self.pos[:, None].clone()}
        self.elapsed[over | gone] = 0.0
        won = over & (ids % 2 == 0)
        metrics = {"success": won.float()}
        return Step(next_obs, next_obs, won.float(), won, over & ~won | gone, ~gone, metrics)

    def close(self) -> None:
        pass


def collect(
    directory: Path, episodes: int = 10, lost: dict[int, int] | None = None, **fields: Any
) -> ZarrStore:
    experiment = SimpleNamespace(
        seed=0, make_env=lambda num_envs: Line(num_envs, lost or {}), world=dict[str, str]
    )
    stage = CollectDemonstrations(
        CollectDemonstrations.Config(episodes=episodes, num_envs=NUM_ENVS, **fields)
    )
    stage.run(Context(cast(Any, experiment), directory, []))
    return ZarrStore.open(directory / "data.zarr")


def places(store: ZarrStore) -> list[tuple[Any, Any]]:
    return [(record.meta["wave"], record.meta["env"]) for record in store.episodes]


def test_whole_episodes_are_kept(tmp_path: Path):
    store = collect(tmp_path)
    assert [record.length for record in store.episodes] == [2, 3, 4, 5, 2, 3, 4, 5, 2, 3]
    assert [record.success for record in store.episodes] == [True, False] * 5
    rows = store.read()
    ends = np.cumsum([record.length for record in store.episodes]) - 1
    assert (rows["terminated"] | rows["truncated"]).nonzero()[0].tolist() == ends.tolist()
    assert not (rows["terminated"] & rows["truncated"]).any()
    np.testing.assert_allclose(rows["obs.pos"][1], rows["obs.pos"][0] + rows["act"][0])
    assert places(store)[:5] == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]


@pytest.fixture
def trembles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the experts noise."""

    def expert(self: Line, num_envs: int, generator: torch.Generator, noise: float) -> Expert:
        del self, noise
        made = Expert(num_envs)
        made.generator = generator
        return made

    monkeypatch.setattr(Line, "expert", expert)


@pytest.mark.usefixtures("trembles")
def test_rows_hold_labels_and_what_was_executed_beside_them(tmp_path: Path):
    rows = collect(tmp_path).read()
    assert (rows["act"] == 1.0).all()
    assert np.unique(rows["executed"]).size > 10
    np.testing.assert_allclose(rows["obs.pos"][1], rows["obs.pos"][0] + rows["executed"][0])


@pytest.mark.usefixtures("trembles")
def test_executed_actions_alone_are_recorded_if_asked(tmp_path: Path):
    labelled, plain = (
        collect(tmp_path / "a").read(),
        collect(tmp_path / "b", record="executed").read(),
    )
    assert "executed" not in plain
    np.testing.assert_array_equal(plain["act"], labelled["executed"])


@pytest.mark.usefixtures("trembles")
def test_noisy_episodes_continue_as_if_never_stopped(tmp_path: Path):
    whole = collect(tmp_path / "whole", 9).read()
    collect(tmp_path / "parts", 6)
    for key, rows in collect(tmp_path / "parts", 9).read().items():
        np.testing.assert_array_equal(rows, whole[key])


def test_a_plain_action_is_its_own_label(tmp_path: Path):
    rows = collect(tmp_path).read()
    np.testing.assert_array_equal(rows["act"], rows["executed"])


def test_worlds_that_are_lost_at_once_are_passed_over(tmp_path: Path):
    store = collect(tmp_path, episodes=7, lost={1: 0})
    assert places(store) == [(0, 0), (0, 2), (0, 3), (1, 0), (1, 2), (1, 3), (2, 0)]
    assert min(record.length for record in store.episodes) > 0


def test_a_world_that_is_lost_later_ends_its_episode_before_that(tmp_path: Path):
    store = collect(tmp_path, episodes=4, lost={3: 2})
    lost = store.episodes[3]
    assert (lost.length, lost.success) == (2, False)
    rows = store.read(["terminated", "truncated"], [lost])
    assert rows["truncated"].tolist() == [False, True]
    assert not rows["terminated"].any()


_FAST = [(1, {}), (4, {1: 0}), (7, {3: 0})]


@pytest.mark.parametrize(
    ("first", "lost"),
    [
        pytest.param(first, lost, marks=[pytest.mark.slow] * ((first, lost) not in _FAST))
        for first in (1, 3, 4, 7)
        for lost in ({}, {1: 0}, {3: 0})
    ],
)
def test_what_is_missing_is_what_would_have_followed(tmp_path: Path, first: int, lost: Any):
    whole = collect(tmp_path / "whole", 9, lost)
    collect(tmp_path / "parts", first, lost) if first >= NUM_ENVS else _cut(tmp_path, first, lost)
    parts = collect(tmp_path / "parts", 9, lost)
    assert places(parts) == places(whole)
    for key, rows in whole.read().items():
        np.testing.assert_array_equal(parts.read()[key], rows)


def _cut(tmp_path: Path, first: int, lost: dict[int, int]) -> None:
    """As a kill between the episodes of the first wave leaves it."""
    whole = ZarrStore.open(tmp_path / "whole" / "data.zarr")
    path = tmp_path / "parts" / "data.zarr"
    columns = whole.schema.columns
    store = ZarrStore.create(path, OBS, ACT, dict(whole.schema.meta), columns=columns)
    for record in whole.episodes[:first]:
        rows = whole.read(episodes=[record])
        obs = {"pos": rows.pop("obs.pos")}
        said = {"success": record.success, "seed": record.seed, "meta": record.meta}
        store.append({"obs": obs, **rows, **said})


@pytest.mark.parametrize("first", [0, 1, 3])
def test_it_ends_with_the_last_of_the_wanted_successes(tmp_path: Path, first: int):
    collect(tmp_path / "whole", 9)
    _cut(tmp_path, first, {})
    store = collect(tmp_path / "parts", 9, successes=3)
    assert places(store) == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]
    assert places(collect(tmp_path / "parts", 9, successes=3)) == places(store)
    cfg = CollectDemonstrations.Config(episodes=9, successes=3)
    share = CollectDemonstrations(cfg)._success(store)["success"]
    assert (share["value"], share["n"]) == (0.5, 4)  # the fifth ended it, and had to succeed


def test_successes_that_are_out_of_reach_are_refused(tmp_path: Path):
    with pytest.raises(DataError, match=r"expected successes: 5, found 4 of 8 episodes"):
        collect(tmp_path, episodes=8, successes=5)
    with pytest.raises(ValidationError, match="3 of 2 episodes cannot succeed"):
        CollectDemonstrations.Config(episodes=2, successes=3)


def test_an_expert_that_loses_every_world_at_once_is_refused(tmp_path: Path):
    with pytest.raises(PluginError, match="every world is lost at its first step"):
        collect(tmp_path, lost=dict.fromkeys(range(NUM_ENVS), 0))


def test_an_env_may_bring_the_expert_itself(tmp_path: Path):
    class Own(Line):
        def __init__(self, num_envs: int, lost: dict[int, int]) -> None:
            super().__init__(num_envs, lost)
            del self.task

    experiment = SimpleNamespace(seed=0, make_env=lambda num_envs: Own(num_envs, {}), world=dict)
    stage = CollectDemonstrations(CollectDemonstrations.Config(episodes=10, num_envs=NUM_ENVS))
    stage.run(Context(cast(Any, experiment), tmp_path / "own", []))
    own, of_task = ZarrStore.open(tmp_path / "own" / "data.zarr"), collect(tmp_path / "task")
    assert places(own) == places(of_task)
    for key, rows in of_task.read().items():
        np.testing.assert_array_equal(own.read()[key], rows)


def test_meta_worlds_scripted_policies_demonstrate(tmp_path: Path):
    pytest.importorskip("metaworld", reason="Meta-World is not installed")
    from robo_rl.env.gym_envs.metaworld import MetaWorld

    cfg = MetaWorld.Config(task="reach-v3", workers=1)
    experiment = SimpleNamespace(seed=0, make_env=lambda n: MetaWorld(cfg, n), world=dict)
    stage = CollectDemonstrations(CollectDemonstrations.Config(episodes=4, num_envs=2, noise=0.3))
    report = stage.run(Context(cast(Any, experiment), tmp_path, []))
    assert report.status == "passed"
    store = ZarrStore.open(tmp_path / "data.zarr")
    assert [record.success for record in store.episodes] == [True] * 4
    rows = store.read()
    ends = np.cumsum([record.length for record in store.episodes]) - 1
    assert rows["terminated"].nonzero()[0].tolist() == ends.tolist()
    assert rows["rew"].nonzero()[0].tolist() == ends.tolist()
    assert np.abs(rows["act"]).max() == 1.0
    np.testing.assert_array_equal(rows["obs.state"][1, 18:36], rows["obs.state"][0, :18])


@pytest.mark.parametrize("missing", ["view", "expert"])
def test_an_env_that_cannot_demonstrate_is_refused(tmp_path: Path, missing: str):
    env = Line(NUM_ENVS, {})
    shown = {name: getattr(env, name) for name in ("num_envs", "obs_spec", "act_spec", "close")}
    if missing == "view":
        shown["task"] = env
    else:
        shown |= {"view": None, "task": SimpleNamespace()}
    experiment = SimpleNamespace(seed=0, make_env=lambda _: SimpleNamespace(**shown), world=dict)
    with pytest.raises(PluginError, match="no scripted expert"):
        CollectDemonstrations(CollectDemonstrations.Config()).run(
            Context(cast(Any, experiment), tmp_path, [])
        )


def test_the_expert_is_at_its_best_in_its_share_of_the_waves_wherever_one_stops():
    cfg = CollectDemonstrations.Config(noise=0.8, expert_fraction=0.1)
    noises = [cfg.noise_of(wave) for wave in range(40)]
    assert noises.count(0.0) == 4
    assert set(noises) == {0.0, 0.8}
    assert all(noises[tenth : tenth + 10].count(0.0) == 1 for tenth in (0, 10, 20, 30))
    assert [CollectDemonstrations.Config(noise=0.5).noise_of(wave) for wave in range(3)] == [
        0.5
    ] * 3


def test_each_episode_keeps_the_sentence_it_was_told(tmp_path: Path):
    """It is the one that the item's bytes spell, and what an export to LeRobot names."""
    task = {"name": "coloured_table", "actions": "pose_delta", "episode_s": 0.5}
    env = {"name": "sim", "text_encoder": "bytes"}
    stages = {"collect": {"episodes": 4, "num_envs": 4}}
    wanted = validate(
        {**EXPERIMENT, "task": task, "env": env, "stages": stages, "waive": {}}, Experiment
    )
    cfg = CollectDemonstrations.Config(episodes=4, num_envs=4)
    CollectDemonstrations(cfg).run(Context(wanted, tmp_path, []))
    store = ZarrStore.open(tmp_path / "data.zarr")
    for record in store.episodes:
        ids = store.read(None, [record])["obs.instruction"]
        assert (ids == ids[0]).all()
        assert record.meta["tasks"] == [bytes(ids[0][ids[0] >= 0].tolist()).decode()]
    assert len({str(record.meta["tasks"]) for record in store.episodes}) > 1


def test_the_memory_is_that_of_the_expected_number_of_episodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Two of four episodes of 3.5 rows succeed, so that three successes take six episodes."""
    needed = list[int]()
    monkeypatch.setattr(stage, "fits_memory", lambda size: not needed.append(size))
    collect(tmp_path, 9, successes=3)
    assert needed == [round(3.5 * 6 * OBS.num_bytes)]
