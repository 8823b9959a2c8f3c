"""Stage ``dataset``: what was recorded elsewhere is taken up, if it is of the same world."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from small_stores import ACT, OBS, make_episode, make_store

from robo_rl.config.component import component
from robo_rl.core.errors import DataError, Notice
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.train.stages.data.load_dataset import LoadDataset


def context(
    act_spec: ActSpec = ACT,
    obs_spec: ObsSpec = OBS,
    sees: tuple[str, ...] = (),
    later: tuple[dict[str, Any], ...] = (),
) -> Any:
    env = SimpleNamespace(obs_spec=obs_spec, act_spec=act_spec, close=lambda: None)
    policy = SimpleNamespace(cfg=SimpleNamespace(sees=sees))
    made = {f"{i}": component("stages").make(fields) for i, fields in enumerate(later)}
    stages = {"dataset": SimpleNamespace(cls=LoadDataset), **made}
    experiment = SimpleNamespace(make_env=lambda num: env, policy=policy, stages=stages)
    return cast(Any, SimpleNamespace(experiment=experiment, earlier=[]))


@pytest.mark.parametrize(("episodes", "passed"), [(1, True), (0, False)])
def test_it_is_handed_on_if_anything_in_it_succeeded(tmp_path: Path, episodes: int, passed: bool):
    store = make_store(tmp_path / "data.zarr")
    store.extend(make_episode(2 * index) for index in range(episodes))
    store.append(make_episode(1))
    report = LoadDataset(LoadDataset.Config(path=str(store.path))).run(context())
    assert Path(report.artifacts["dataset"]) == store.path
    assert report.numbers["dataset"] == store.digest()
    assert report.gate is not None
    assert report.gate.passed is passed


def test_actions_outside_their_limits_are_counted_and_said(tmp_path: Path):
    store = make_store(tmp_path / "data.zarr")
    episode = make_episode(0)
    episode["act"] = np.clip(episode["act"], -1.5, 1.5)
    store.append(episode)
    quiet = LoadDataset(LoadDataset.Config(path=str(store.path))).run(context())
    assert quiet.numbers["rows_outside_limits"] == 0
    episode["act"][3, 0] = -2000.0
    store.append(episode)
    said = r"in 1 of 10 rows, the farthest in episode 1, row 3: 'shoulder' is -2000 rad.*verify"
    with pytest.warns(Notice, match=said):
        report = LoadDataset(LoadDataset.Config(path=str(store.path))).run(context())
    assert report.numbers["rows_outside_limits"] == 1


def test_of_logs_that_are_not_marked_none_need_have_succeeded(tmp_path: Path):
    store = make_store(tmp_path / "data.zarr")
    store.append(make_episode(1))
    report = LoadDataset(LoadDataset.Config(path=str(store.path), labelled=False)).run(context())
    assert report.status == "passed"
    assert report.gate is None


def test_another_world_is_refused(tmp_path: Path):
    store = make_store(tmp_path / "data.zarr")
    other = ACT.model_copy(update={"rate_hz": 50.0})
    with pytest.raises(
        DataError, match=r"other arrays than the env has: act; expected act rate_hz 50"
    ):
        LoadDataset(LoadDataset.Config(path=str(store.path))).run(context(other))


def test_an_observation_that_it_does_not_have_is_said_to_be_missing(tmp_path: Path):
    store = make_store(tmp_path / "data.zarr")
    more = ObsSpec(items={**OBS.items, "goal": TensorSpec(shape=(3,))})
    stage = LoadDataset(LoadDataset.Config(path=str(store.path)))
    for sees in ((), ("joint_pos", "goal")):
        with pytest.raises(
            DataError, match=r"the env has: goal; .*goal is not there; .*another task"
        ):
            stage.run(context(obs_spec=more, sees=sees))


def test_what_the_policy_does_not_see_may_be_missing_but_not_differ(tmp_path: Path):
    store = make_store(tmp_path / "data.zarr")
    store.append(make_episode(0))
    stage = LoadDataset(LoadDataset.Config(path=str(store.path)))
    more = ObsSpec(items={**OBS.items, "goal": TensorSpec(shape=(3,))})
    assert stage.run(context(obs_spec=more, sees=("joint_pos",))).status == "passed"
    other = ObsSpec(items={**OBS.items, "image": TensorSpec(shape=(4, 4, 3), dtype="uint8")})
    with pytest.raises(DataError, match="the env has: image"):
        stage.run(context(obs_spec=other, sees=("joint_pos",)))


BC, OFFLINE = {"name": "bc"}, {"name": "offline"}


def outcome(tmp_path: Path, *later: dict[str, Any]) -> str:
    """What the stage comes to with data that lack an observation which the policy does not see."""
    store = make_store(tmp_path / "data.zarr")
    store.append(make_episode(0))
    more = ObsSpec(items={**OBS.items, "goal": TensorSpec(shape=(3,))})
    stage = LoadDataset(LoadDataset.Config(path=str(store.path)))
    return stage.run(context(obs_spec=more, sees=("joint_pos",), later=later)).status


@pytest.mark.parametrize(
    "later",
    [
        (BC, OFFLINE),
        (BC, {"name": "ope"}),
        (BC, {"name": "online", "algo": "td3"}),
        ({"name": "label"}, BC, OFFLINE),
        (BC, {"name": "record", "append": True}, OFFLINE),
    ],
    ids=["offline", "ope", "td3", "label", "append"],
)
def test_values_are_learnt_from_all_observations(tmp_path: Path, later: Any):
    """The refusal comes before a policy is cloned."""
    with pytest.raises(DataError, match=rf"the env has: goal; .*'{len(later) - 1}' learns values"):
        outcome(tmp_path, *later)


@pytest.mark.parametrize(
    "later",
    [
        (BC, {"name": "online", "algo": "ppo"}),
        ({"name": "record"}, OFFLINE),
        ({"name": "dataset", "path": "other.zarr"}, OFFLINE),
        (BC, {"name": "online", "algo": {"name": "td3", "replay": {"demo_fraction": 0.0}}}),
    ],
    ids=["ppo", "record", "dataset", "td3"],
)
def test_without_a_learner_of_values_observations_may_lack(tmp_path: Path, later: Any):
    assert outcome(tmp_path, *later) == "passed"


def test_a_stage_of_unknown_artifacts_may_make_another_dataset(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(component("stages").make(BC).cls, "makes", None)
    assert outcome(tmp_path, BC, OFFLINE) == "passed"


def test_where_there_is_none_it_says_so_and_how_to_make_one(tmp_path: Path):
    cfg = LoadDataset.Config(path=str(tmp_path / "nothing"))
    with pytest.raises(DataError, match=r"nothing: there is no dataset; .*robo-rl collect"):
        LoadDataset(cfg).run(context())
    (tmp_path / "nothing").mkdir()
    with pytest.raises(DataError, match="is not a demonstration store"):
        LoadDataset(cfg).run(context())
