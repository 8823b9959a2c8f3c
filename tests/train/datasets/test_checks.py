"""What is told of a dataset before values are learnt from it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from small_stores import ACT, COLUMNS, OBS, make_episode, make_store

from robo_rl.core.errors import DataError, Notice, SpecError
from robo_rl.core.spec import ActSpec, ObsSpec
from robo_rl.data.dataset import WindowDataset
from robo_rl.data.store.relabel import LABEL
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.train.datasets.checks import (
    check_obs_recorded,
    check_outcomes_differ,
    check_policy_specs,
    check_rewards_recorded,
)
from robo_rl.train.datasets.spec_checks import demand_items_read

Episode = dict[str, Any]


def policy(obs: ObsSpec = OBS, act: ActSpec = ACT) -> Any:
    return SimpleNamespace(env_spec=obs, act_spec=act)


def stored(path: Path, change: Callable[[Episode], None] = lambda episode: None) -> ZarrStore:
    """Four episodes, every other one a success, each changed."""
    store = make_store(path)
    for number in range(4):
        episode = make_episode(number)
        change(episode)
        store.extend([episode])
    return store


def windows(store: ZarrStore) -> WindowDataset:
    return WindowDataset(store, obs_horizon=1, horizon=2)


def test_what_fits_is_not_spoken_of(tmp_path: Path):
    store = stored(tmp_path / "data.zarr")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_policy_specs(store, policy())
        check_outcomes_differ(store, windows(store))


@pytest.mark.parametrize(
    ("act", "told"),
    [
        ({"rate_hz": 50.0}, "rate_hz 50"),
        ({"unit": "deg"}, "unit deg"),
        ({"names": ("elbow", "shoulder")}, "names"),
        ({"low": (-1.0, -1.0)}, "low"),
        ({"reference": "delta"}, "reference"),
    ],
)
def test_other_actions_are_refused_by_what_is_other_about_them(
    tmp_path: Path, act: dict[str, Any], told: str
):
    store = stored(tmp_path / "data.zarr")
    with pytest.raises(DataError, match="holds other arrays than the env of the policy has: act"):
        check_policy_specs(store, policy(act=ACT.model_copy(update=act)))
    with pytest.raises(DataError, match=told):
        check_policy_specs(store, policy(act=ACT.model_copy(update=act)))


def test_an_observation_that_is_not_there_is_named(tmp_path: Path):
    more = ObsSpec(items={**OBS.items, "cube_pos": OBS.items["joint_pos"]})
    with pytest.raises(DataError, match="cube_pos is not there"):
        check_policy_specs(stored(tmp_path / "data.zarr"), policy(obs=more))


def test_what_a_classifier_sees_must_be_there_and_more_does_no_harm(tmp_path: Path):
    store = stored(tmp_path / "data.zarr")
    joints = OBS.items["joint_pos"]
    check_obs_recorded(store, ObsSpec(items={"joint_pos": joints}))
    other = joints.model_copy(update={"unit": "deg"})
    with pytest.raises(DataError, match=r"classifier of success sees: joint_pos.*unit deg"):
        check_obs_recorded(store, ObsSpec(items={"joint_pos": other}))
    with pytest.raises(DataError, match="cube_pos is not there"):
        check_obs_recorded(store, ObsSpec(items={"joint_pos": joints, "cube_pos": joints}))


def test_rewards_that_are_one_are_refused(tmp_path: Path):
    def alike(episode: Episode) -> None:
        episode["rew"] = np.zeros_like(episode["rew"])

    store = stored(tmp_path / "data.zarr", alike)
    with pytest.raises(DataError, match="the same reward in every row"):
        check_outcomes_differ(store, windows(store))


def test_recordings_without_rewards_do_not_go_beside_those_of_an_env(tmp_path: Path):
    def unpaid(episode: Episode) -> None:
        episode["rew"] = np.zeros_like(episode["rew"])

    store = stored(tmp_path / "data.zarr", unpaid)
    with pytest.raises(DataError, match=r"holds no reward.*0 in all of \d+ rows.*demo_fraction=0"):
        check_rewards_recorded(store)
    with pytest.raises(DataError, match=r"by the stages 'success' and 'label'$"):
        check_rewards_recorded(store, needed=True)  # settings that need the data refuse a 0


@pytest.mark.parametrize("rew", [-1.0, None], ids=["the price of a step", "several"])
def test_rewards_of_an_env_go_beside_more_of_them(tmp_path: Path, rew: float | None):
    def paid(episode: Episode) -> None:
        if rew is not None:
            episode["rew"] = np.full_like(episode["rew"], rew)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_rewards_recorded(stored(tmp_path / "data.zarr", paid))


def test_rewards_of_a_classifier_beside_those_of_an_env_are_warned_of(tmp_path: Path):
    store = ZarrStore.create(tmp_path / "data.zarr", OBS, ACT, {LABEL: {}}, columns=COLUMNS)
    store.append(make_episode(0))
    with pytest.warns(Notice, match=r"rewards of stage 'label'.*task\.reward=sparse"):
        check_rewards_recorded(store)


def test_actions_that_never_change_are_refused(tmp_path: Path):
    def still(episode: Episode) -> None:
        episode["act"] = np.ones_like(episode["act"])

    store = stored(tmp_path / "data.zarr", still)
    with pytest.raises(DataError, match="one and the same action in every row"):
        check_outcomes_differ(store, windows(store))


@pytest.mark.parametrize(("success", "told"), [(True, "succeeded"), (False, "failed")])
def test_episodes_that_all_ended_alike_are_warned_of(tmp_path: Path, success: bool, told: str):
    def alike(episode: Episode) -> None:
        episode["success"] = success

    store = stored(tmp_path / "data.zarr", alike)
    with pytest.warns(Notice, match=f"every episode {told}"):
        check_outcomes_differ(store, windows(store))


def test_a_policy_reads_nothing_that_the_env_lacks():
    name, *_ = OBS.items
    fewer = ObsSpec(items={key: spec for key, spec in OBS.items.items() if key != name})
    demand_items_read(Path("made"), "policy", fewer, OBS)
    with pytest.raises(SpecError, match=f"made: the policy reads an item '{name}'.*found none"):
        demand_items_read(Path("made"), "policy", OBS, fewer)
