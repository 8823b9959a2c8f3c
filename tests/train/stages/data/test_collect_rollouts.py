"""Episodes of a policy: whole, as the env carried them out, and resumed anywhere."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from robo_rl.api.env import Step
from robo_rl.api.task import Demonstration
from robo_rl.config.component import component
from robo_rl.core.errors import DataError, PluginError
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.data.dataset import EXECUTED, INTERVENTION
from robo_rl.data.normalize import Normalizer
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.train.checkpoint.policies import save_policy
from robo_rl.train.evaluation.evaluate import EvalProtocol
from robo_rl.train.pipeline.stage import Context, Report, Stage
from robo_rl.train.stages.data.collect_rollouts import CollectRollouts

OBS = ObsSpec(items={"pos": TensorSpec(shape=(1,))})
ACT = ActSpec(shape=(1,), rate_hz=20.0, low=(-1.0,), high=(1.0,))
NUM_ENVS = 4


class Line:
    """Env b moves by its action and ends after 2 + b steps; each step pays b."""

    obs_spec, act_spec = OBS, ACT
    dt_s, max_episode_steps, device = 0.05, 5, torch.device("cpu")

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs

    def reset(self, seed: int | None = None) -> dict[str, Tensor]:
        assert seed is not None
        generator = torch.Generator().manual_seed(seed)
        self.pos = torch.rand(self.num_envs, generator=generator)
        self.elapsed = torch.zeros(self.num_envs)
        return {"pos": self.pos[:, None].clone()}

    def step(self, act: Tensor) -> Step:
        self.pos, self.elapsed = self.pos + act[:, 0].clamp(-1.0, 1.0), self.elapsed + 1
        ids = torch.arange(self.num_envs)
        over = self.elapsed >= 2 + ids
        next_obs = {"pos": self.pos[:, None].clone()}
        self.elapsed[over] = 0.0
        none = torch.zeros_like(over)
        metrics = {"success": torch.zeros(self.num_envs)}
        return Step(next_obs, next_obs, ids.float(), over, none, ~none, metrics)

    def close(self) -> None:
        pass


class Guided(Line):
    """A line whose expert leads back to 0 in one step."""

    @property
    def view(self) -> Tensor:
        return self.pos

    def expert(self, num_envs: int, generator: torch.Generator, noise: float) -> Guide:
        assert (num_envs, noise) == (self.num_envs, 0.0)
        return Guide()


class Guide:
    """The expert."""

    memoryless = True

    def reset(self, ids: Tensor) -> None:
        pass

    def act(self, view: Tensor) -> Demonstration:
        return Demonstration(torch.full((len(view), 1), torch.nan), -view[:, None])


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """One of chunks of 2 whose noise is so wide that the env clips it."""
    sampler = {"name": "gaussian", "std_min": 1.9, "std_max": 2.1}
    net = {"name": "mlp", "width": 8, "depth": 1}
    settings = {"name": "gaussian", "horizon": 2, "exec_horizon": 2, "sampler": sampler, "net": net}
    torch.manual_seed(0)
    built = component("policies").make(settings).build(OBS, ACT, Normalizer.identity(OBS, ACT))
    return save_policy(tmp_path / "policy", built)


def record(
    policy: Path,
    directory: Path,
    measure: str = "return",
    earlier: tuple[Path, Report] | None = None,
    env: type[Line] = Line,
    **fields: Any,
) -> Report:
    protocol = EvalProtocol.model_validate({"measure": measure})
    made = (policy.parent, Report("online", artifacts={"policy": policy.name}))
    before = [made] if earlier is None else [earlier, made]
    kinds = [CollectRollouts if each.stage == "record" else Stage for _, each in before]
    stages = {str(n): SimpleNamespace(cls=cls) for n, cls in enumerate(kinds)}
    experiment = SimpleNamespace(
        seed=0, make_env=env, world=dict[str, str], eval=protocol, stages=stages
    )
    cfg = CollectRollouts.Config.model_validate({"episodes": 6, "num_envs": NUM_ENVS, **fields})
    return CollectRollouts(cfg).run(Context(cast(Any, experiment), directory, before))


def test_episodes_are_whole_and_hold_what_was_carried_out(policy: Path, tmp_path: Path):
    report = record(policy, tmp_path)
    store = ZarrStore.open(tmp_path / report.artifacts["dataset"])
    assert [episode.length for episode in store.episodes] == [2, 3, 4, 5, 2, 3]
    rows = store.read()
    stops = np.cumsum([episode.length for episode in store.episodes])
    within = np.setdiff1d(np.arange(stops[-1]), stops - 1)
    moved = rows["obs.pos"][within + 1] - rows["obs.pos"][within]
    np.testing.assert_allclose(moved, rows["act"][within], atol=1e-6)
    assert np.abs(rows["act"]).max() == 1.0  # noise that wide is clipped
    assert rows["terminated"].nonzero()[0].tolist() == (stops - 1).tolist()
    # returns are 0·2, 1·3, 2·4, 3·5, 0·2, 1·3
    assert report.numbers["return"]["value"] == pytest.approx((0 + 3 + 8 + 15 + 0 + 3) / 6)
    assert "success" not in report.numbers
    assert "success" in record(policy, tmp_path, measure="success").numbers


def test_how_it_acts_is_a_setting(policy: Path, tmp_path: Path):
    stores = []
    for sampler in ("explore", "evaluate"):
        record(policy, tmp_path / sampler, sampler=sampler)
        stores.append(ZarrStore.open(tmp_path / sampler / "data.zarr").read(["act"])["act"])
    assert np.abs(stores[0]).max() == 1.0
    assert np.abs(stores[1]).max() < 1.0


def test_what_is_missing_is_what_would_have_followed(policy: Path, tmp_path: Path):
    record(policy, tmp_path / "whole", episodes=9)
    record(policy, tmp_path / "parts", episodes=5)
    record(policy, tmp_path / "parts", episodes=9)
    whole, parts = (ZarrStore.open(tmp_path / name / "data.zarr") for name in ("whole", "parts"))
    assert [e.meta for e in whole.episodes] == [e.meta for e in parts.episodes]
    for key, rows in whole.read().items():
        np.testing.assert_array_equal(parts.read()[key], rows)


def test_onto_a_dataset_its_episodes_stay_in_front_and_it_stays_as_it_was(
    policy: Path, tmp_path: Path
):
    first = record(policy, tmp_path / "first", episodes=5)
    before = ZarrStore.open(tmp_path / "first" / "data.zarr").digest()
    earlier = (tmp_path / "first", first)
    found = record(policy, tmp_path / "both", earlier=earlier, episodes=6, append=True)
    cut = record(policy, tmp_path / "cut", earlier=earlier, episodes=5, append=True)
    again = record(policy, tmp_path / "cut", earlier=earlier, episodes=6, append=True)
    store = ZarrStore.open(tmp_path / "both" / "data.zarr")
    assert [episode.length for episode in store.episodes] == [2, 3, 4, 5, 2, 2, 3, 4, 5, 2, 3]
    assert store.digest() == ZarrStore.open(tmp_path / "cut" / "data.zarr").digest()
    starts = store.read(["obs.pos"])["obs.pos"][[0, 2, 5, 9, 14, 16, 18, 21, 25, 30, 32], 0]
    assert len(set(starts.tolist())) == 11  # the same policy repeats no episode
    assert found.numbers["dataset"] == again.numbers["dataset"] != cut.numbers["dataset"]
    assert found.numbers["return"]["value"] == pytest.approx(
        (0 + 3 + 8 + 15 + 0 + 3) / 6
    )  # new ones
    assert ZarrStore.open(tmp_path / "first" / "data.zarr").digest() == before
    assert not store.verify().damage


def test_onto_a_dataset_with_labels_its_own_actions_are_both(policy: Path, tmp_path: Path):
    record(policy, tmp_path / "plain", episodes=2)
    plain = ZarrStore.open(tmp_path / "plain" / "data.zarr")
    (tmp_path / "first").mkdir()
    columns = {"executed": TensorSpec(shape=(1,))}
    labelled = ZarrStore.create(tmp_path / "first" / "data.zarr", OBS, ACT, {}, columns=columns)
    rows = plain.read(episodes=plain.episodes[:1])
    seen = {"obs": {"pos": rows.pop("obs.pos")}, "success": True}
    labelled.append({**rows, **seen, "executed": rows["act"] + 1.0})
    earlier = (tmp_path / "first", Report("collect", artifacts={"dataset": "data.zarr"}))
    record(policy, tmp_path / "both", earlier=earlier, episodes=3, append=True)
    found = ZarrStore.open(tmp_path / "both" / "data.zarr").read(["act", "executed"])
    own = len(rows["act"])
    np.testing.assert_array_equal(found["executed"][own:], found["act"][own:])
    assert (found["executed"][:own] != found["act"][:own]).all()


def test_onto_recordings_of_a_robot_no_human_intervenes_and_other_arrays_are_refused(
    policy: Path, tmp_path: Path
):
    for name, act in (("robot", ACT), ("other", ACT.model_copy(update={"unit": "deg"}))):
        columns = {INTERVENTION: TensorSpec(shape=(), dtype="bool")}
        recorded = ZarrStore.create(tmp_path / name / "data.zarr", OBS, act, {}, columns=columns)
        ends = np.array([False, True])
        rows = {"act": np.zeros((2, 1), np.float32), "rew": np.zeros(2, np.float32)}
        rows |= {"terminated": ends, "truncated": ~ends & ends, INTERVENTION: ~ends}
        recorded.append({"obs": {"pos": np.zeros((2, 1), np.float32)}, **rows, "success": True})
    dataset = Report("dataset", artifacts={"dataset": "data.zarr"})
    both = tmp_path / "both"
    record(policy, both, earlier=(tmp_path / "robot", dataset), episodes=3, append=True)
    found = ZarrStore.open(both / "data.zarr").read([INTERVENTION])[INTERVENTION]
    assert found[0]
    assert not found[1:].any()
    with pytest.raises(DataError, match="other arrays than the env has: act"):
        record(policy, tmp_path / "no", earlier=(tmp_path / "other", dataset), append=True)
    assert not (tmp_path / "no").exists()


def test_bad_episodes_make_room_for_others(policy: Path, tmp_path: Path):
    found = record(policy, tmp_path, measure="success", min_return=8.0)
    assert "success" not in found.numbers  # of the kept ones
    store = ZarrStore.open(tmp_path / "data.zarr")
    assert [episode.length for episode in store.episodes] == [4, 5] * 3
    with pytest.raises(DataError, match="best 15"):
        record(policy, tmp_path / "none", min_return=16.0)


def test_the_expert_labels_the_states_that_the_policy_visits(policy, tmp_path):
    record(policy, tmp_path / "out", env=Guided, episodes=6, num_envs=NUM_ENVS, labels="expert")
    store = ZarrStore.open(tmp_path / "out" / "data.zarr")
    rows = store.read(["obs.pos", "act", EXECUTED])
    np.testing.assert_array_equal(rows["act"], -rows["obs.pos"])
    np.testing.assert_array_less(np.abs(rows[EXECUTED]), 1.0 + 1e-6)
    inside = np.diff(np.cumsum([0, *(each.length for each in store.episodes)]))
    first = store.read(["obs.pos", EXECUTED], store.episodes[:1])
    moved = np.diff(first["obs.pos"][:, 0])
    np.testing.assert_allclose(moved, first[EXECUTED][: inside[0] - 1, 0], atol=1e-6)


def test_labels_need_a_column_for_what_was_executed(policy, tmp_path):
    report = record(policy, tmp_path / "plain", env=Guided, episodes=4, num_envs=NUM_ENVS)
    with pytest.raises(DataError, match="no column for executed actions"):
        record(
            policy,
            tmp_path / "more",
            env=Guided,
            earlier=(tmp_path / "plain", report),
            episodes=4,
            num_envs=NUM_ENVS,
            labels="expert",
            append=True,
        )
    assert not (tmp_path / "more").exists()


def test_an_expert_with_a_memory_labels_no_other_policy(policy, tmp_path, monkeypatch):
    monkeypatch.setattr(Guide, "memoryless", False)
    with pytest.raises(PluginError, match="cannot label"):
        record(policy, tmp_path, env=Guided, episodes=4, num_envs=NUM_ENVS, labels="expert")
