"""The stage that says rewards and ends anew by a learnt success."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_marked import ACT, OBS, context, empty_store, marked_episode, marked_store
from small_runs import EXPERIMENT, STAGES, write_experiment
from torch import Tensor

from robo_rl.core.errors import DataError
from robo_rl.core.spec import ObsSpec, TensorSpec
from robo_rl.data.normalize import Normalizer
from robo_rl.data.store.relabel import relabel
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.train.checkpoint.classifiers import save_success
from robo_rl.train.pipeline.run import run_experiment
from robo_rl.train.pipeline.stage import Report
from robo_rl.train.stages.data import relabel as label
from robo_rl.train.stages.data.relabel import Relabel
from robo_rl.world.success import SuccessClassifier


class PlaceBeyondOne(torch.nn.Module):
    """Stands in for the networks: log-odds are 100 times how far the place is beyond 1."""

    def __init__(self, members: int) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.full((members, 1, 1), 100.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * (x[..., :1] - 1.0)


@pytest.fixture
def success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An artifact that knows: a place beyond 1 is a success."""
    return saved(tmp_path / "success", monkeypatch)


def saved(path: Path, monkeypatch: pytest.MonkeyPatch, hold: int = 1) -> Path:
    monkeypatch.setattr(
        "robo_rl.world.success.MlpEnsemble", lambda members, *_, **__: PlaceBeyondOne(members)
    )
    cfg = SuccessClassifier.Config(members=1, consecutive_rows=hold)
    return save_success(path, SuccessClassifier(cfg, OBS, Normalizer.identity(OBS, ACT)))


def labelled(directory: Path, store: ZarrStore, success: Path) -> Report:
    return Relabel(Relabel.Config()).run(context(directory, store, success=success))


def blind(path: Path, store: ZarrStore) -> ZarrStore:
    """The same episodes, of which nobody says what became of them."""
    logs = empty_store(path)
    logs.extend(unmarked(store))
    return logs


def unmarked(store: ZarrStore) -> list[dict[str, Any]]:
    return [relabel(store.read(None, [each]), each, None) for each in store.episodes]


@pytest.mark.parametrize("hold", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_rewards_that_are_a_function_of_what_is_seen_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hold: int
):
    store = marked_store(tmp_path / "data.zarr", hold=hold)
    success = saved(tmp_path / "success", monkeypatch, hold)
    logs = blind(tmp_path / "logs.zarr", store)
    assert float(logs.read(["rew"])["rew"].sum()) == 0.0
    report = labelled(tmp_path / "run", logs, success)
    found = ZarrStore.open(tmp_path / "run" / report.artifacts["dataset"])
    rows = store.read()
    for key, column in found.read().items():
        np.testing.assert_array_equal(column, rows[key], err_msg=key)
    for new, old in zip(found.episodes, store.episodes, strict=True):
        assert (new.success, new.seed, new.meta) == (old.success, old.seed, old.meta)
    assert "agreement" not in report.numbers  # the logs say nothing of success
    assert report.numbers["rows_dropped"] == 0
    assert report.numbers["dataset"] == found.digest()
    assert report.status == "passed"
    assert found.schema.columns == store.schema.columns
    assert found.schema.meta["world"] == "made up"
    assert not found.verify().damage


def test_an_episode_ends_where_it_succeeds_and_others_are_cut(tmp_path: Path, success: Path):
    store = empty_store(tmp_path / "data.zarr")
    store.append(marked_episode(1, success=True, behind=4))
    failed = marked_episode(3, success=False)
    failed["terminated"], failed["truncated"] = failed["truncated"], failed["terminated"]
    failed["rew"] += 5.0
    store.append({**failed, "success": True})
    store.append(marked_episode(4, success=True))
    report = labelled(tmp_path / "run", store, success)
    found = ZarrStore.open(tmp_path / "run" / "data.zarr")
    # places behind the success are drawn below 0.8; 6 + 1 rows lead up to it
    assert [episode.length for episode in found.episodes] == [7, 9, 10]
    assert [episode.success for episode in found.episodes] == [True, False, True]
    rows = found.read(["rew", "terminated", "truncated"])
    assert rows["rew"].nonzero()[0].tolist() == [6, 25]
    assert rows["terminated"].nonzero()[0].tolist() == [6, 25]
    assert rows["truncated"].nonzero()[0].tolist() == [15]
    numbers = report.numbers
    assert (numbers["both_succeeded"], numbers["only_marked"]) == (2, 1)
    assert (numbers["only_labelled"], numbers["neither"]) == (0, 0)
    assert numbers["agreement"]["value"] == pytest.approx(2 / 3)
    assert numbers["rows_dropped"] == 4
    assert numbers["steps_early"] == pytest.approx(2.0)


def test_logs_in_which_nothing_succeeds_do_not_pass(tmp_path: Path, success: Path):
    store = empty_store(tmp_path / "data.zarr")
    store.extend(marked_episode(number, success=False) for number in range(3))
    report = labelled(tmp_path / "run", store, success)
    assert report.status == "failed"
    assert report.numbers["labelled"]["value"] == 0.0


def test_what_was_cut_off_goes_on_to_the_bit(
    tmp_path: Path, success: Path, monkeypatch: pytest.MonkeyPatch
):
    store = marked_store(tmp_path / "data.zarr", 20)
    whole = labelled(tmp_path / "whole", store, success)
    monkeypatch.setattr(label, "_AT_ONCE", 7)
    extend, commits = ZarrStore.extend, iter(range(100))

    def killed(self: ZarrStore, episodes: Any) -> Any:
        if next(commits) == 2:
            raise KeyboardInterrupt
        return extend(self, episodes)

    with monkeypatch.context() as patched:
        patched.setattr(ZarrStore, "extend", killed)
        with pytest.raises(KeyboardInterrupt):
            labelled(tmp_path / "parts", store, success)
    assert len(ZarrStore.open(tmp_path / "parts" / "data.zarr").episodes) == 14
    assert labelled(tmp_path / "parts", store, success).numbers == whole.numbers
    assert not ZarrStore.open(tmp_path / "parts" / "data.zarr").verify().damage


def test_what_was_begun_with_another_dataset_is_not_gone_on_with(tmp_path: Path, success: Path):
    labelled(tmp_path / "run", marked_store(tmp_path / "data.zarr"), success)
    with pytest.raises(DataError, match=r"was begun with another dataset.*delete it"):
        labelled(tmp_path / "run", marked_store(tmp_path / "other.zarr", first=100), success)


def test_data_of_other_arrays_are_refused(tmp_path: Path, success: Path):
    place = TensorSpec(shape=(3,))
    store = empty_store(tmp_path / "data.zarr", ObsSpec(items={**OBS.items, "place": place}))
    with pytest.raises(DataError, match=r"classifier of success sees: place.*shape \(3,\)"):
        labelled(tmp_path / "run", store, success)
    assert not (tmp_path / "run" / "data.zarr").exists()


@pytest.mark.slow
def test_from_marked_episodes_to_rewards_of_unmarked_logs_to_a_policy(tmp_path: Path):
    """Two datasets of one experiment by labels; what is behind ``label`` learns from its logs."""
    collect = {"episodes": 32, "num_envs": 32, "noise": 0.7}
    task = {**EXPERIMENT["task"], "success_m": 0.06}
    made = write_experiment(tmp_path, name="made", task=task, stages={"collect": collect}, waive={})
    run_experiment(str(made), [], tmp_path / "runs")
    marked = ZarrStore.open(tmp_path / "runs" / "made" / "00-collect" / "data.zarr")
    logs = ZarrStore.create(
        tmp_path / "logs.zarr",
        marked.obs_spec,
        marked.act_spec,
        {},
        columns=marked.schema.columns,
    )
    logs.extend(unmarked(marked))
    stages = {
        "dataset": {"path": str(marked.path)},
        "success": {
            "model": {"members": 2, "hidden": [32]},
            "training": {"steps": 150, "lr": 5e-3},
        },
        "logs": {"name": "dataset", "path": str(logs.path), "labelled": False},
        "label": {},
        "bc": STAGES["bc"],
        "offline": {"critic_steps": 20, "steps": 20, "fqe": {"steps": 20}},
    }
    waive = dict.fromkeys(("success", "bc"), "too short to pass")
    config = write_experiment(tmp_path, task=task, stages=stages, waive=waive)
    done = run_experiment(str(config), [], tmp_path / "runs")
    assert [each["stage"] for each in done["stages"]] == list(stages)
    found = json.loads((tmp_path / "runs/tiny/03-label/report.json").read_text())
    labels = ZarrStore.open(tmp_path / "runs" / "tiny" / "03-label" / "data.zarr")
    assert found["numbers"]["labelled"]["value"] > 0.0
    assert labels.schema.meta["label"]["of"] == logs.digest()  # pyright: ignore
    told, truth = ([e.success for e in each.episodes] for each in (labels, marked))
    assert np.mean(np.equal(told, truth)) > 0.6
    judged = done["stages"][-1]["numbers"]["value_before"]["n"]
    assert judged == len(labels.episodes) // 2
