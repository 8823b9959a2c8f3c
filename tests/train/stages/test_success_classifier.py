"""The stage that learns what tells a success, on a made-up world in which that is known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_marked import OBS, context, empty_store, marked_episode, marked_store

from robo_rl.core.errors import DataError
from robo_rl.core.spec import ObsSpec, TensorSpec
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.train.checkpoint.classifiers import load_success
from robo_rl.train.datasets.labelled_episodes import SplitFractions, split_episodes
from robo_rl.train.pipeline.stage import Report
from robo_rl.train.stages.success_classifier import TrainSuccessClassifier
from robo_rl.world.success_trainer import SuccessTrainer

SMALL = {"model": {"members": 2, "hidden": [16]}, "training": {"steps": 120, "lr": 1e-2}}


def learn(directory: Path, store: ZarrStore, **changes: Any) -> Report:
    cfg = TrainSuccessClassifier.Config.model_validate({**SMALL, "checkpoint_every": 20, **changes})
    return TrainSuccessClassifier(cfg).run(context(directory, store))


def kept(directory: Path) -> tuple[bytes, bytes]:
    folder = directory / "success"
    return (folder / "tensors.safetensors").read_bytes(), (folder / "meta.json").read_bytes()


def test_where_success_can_be_seen_it_is_told_with_probabilities_that_hold(tmp_path: Path):
    report = learn(tmp_path / "run", marked_store(tmp_path / "data.zarr"))
    numbers = report.numbers
    assert numbers["auroc"]["value"] > 0.99
    assert numbers["ece"]["value"] < 0.03  # although half of each batch were successes
    assert numbers["brier"]["value"] < 0.5 * numbers["brier_of_the_share"]
    assert numbers["recall"]["value"] == numbers["specificity"]["value"] == 1.0
    assert report.status == "passed"
    counts = [numbers[f"episodes_{part}"] for part in ("learn", "calibrate", "test")]
    assert sum(counts) == 48
    assert numbers["recall"]["n"] + numbers["specificity"]["n"] == counts[2]
    model = load_success(tmp_path / "run" / report.artifacts["success"])
    assert model.calibration.temperature == pytest.approx(numbers["temperature"])


def test_what_cannot_be_seen_does_not_pass(tmp_path: Path):
    store = empty_store(tmp_path / "data.zarr")
    for number in range(48):
        episode = marked_episode(number, success=bool(number % 2))
        episode["obs"]["place"] = (
            np.random.default_rng(number).normal(size=(len(episode["act"]), 1)).astype(np.float32)
        )
        store.append(episode)
    report = learn(tmp_path / "run", store, min_rate=0.7)
    assert report.status == "cannot tell"  # of the handful of episodes that test it
    assert report.gate is not None
    assert "test episodes decide" in report.gate.detail
    assert "both must be above 70.0%" in report.gate.detail


def test_rows_are_marked_by_how_many_last_ones_show_success(tmp_path: Path):
    store = marked_store(tmp_path / "data.zarr", hold=2)
    parts = split_episodes(store, SplitFractions(), 1, 2, torch.Generator().manual_seed(0))
    for part in parts[:3]:
        place = part.data.windows(torch.arange(len(part.data))).obs["place"].flatten()
        assert torch.equal(part.done, place > 1.0)
        assert int(part.done.sum()) == 2 * int(part.succeeded.sum())
        assert 0 < int(part.succeeded.sum()) < len(part.lengths)


def test_an_episode_that_succeeded_and_went_on_is_left_out(tmp_path: Path):
    store = marked_store(tmp_path / "data.zarr")
    store.append(marked_episode(99, success=True, behind=3))
    found = learn(tmp_path / "run", store).numbers
    assert found["episodes_unlabelled"] == 1
    assert sum(found[f"episodes_{part}"] for part in ("learn", "calibrate", "test")) == 48


def test_the_same_seed_gives_the_same_bits_also_behind_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store = marked_store(tmp_path / "data.zarr")
    whole = learn(tmp_path / "whole", store)
    steps, step = iter(range(1000)), SuccessTrainer.step

    def killed(self: SuccessTrainer) -> dict[str, float]:
        if next(steps) == 50:
            raise KeyboardInterrupt
        return step(self)

    with monkeypatch.context() as patched:
        patched.setattr(SuccessTrainer, "step", killed)
        with pytest.raises(KeyboardInterrupt):
            learn(tmp_path / "parts", store)
    parts = learn(tmp_path / "parts", store)
    assert kept(tmp_path / "whole") == kept(tmp_path / "parts")
    assert whole.numbers == parts.numbers


def alike(store: ZarrStore, *, success: bool) -> None:
    store.extend(marked_episode(number, success=success) for number in range(12))


def few(store: ZarrStore) -> None:
    store.extend(marked_episode(number, success=number < 2) for number in range(12))


def going_on(store: ZarrStore) -> None:
    store.extend(marked_episode(n, success=n < 6, behind=2 * (n < 6)) for n in range(12))


@pytest.mark.parametrize(
    ("fill", "told"),
    [
        (lambda store: alike(store, success=True), "found 12 and 0"),
        (lambda store: alike(store, success=False), "found 0 and 12"),
        (few, r"too few episodes.*at least 3 that succeeded.*found 2 and 10"),
        (going_on, r"found 0 and 6 \(6 that succeeded and went on\)"),
    ],
)
def test_episodes_that_do_not_do_are_refused_before_anything_is_learnt(
    tmp_path: Path, fill: Callable[[ZarrStore], None], told: str
):
    store = empty_store(tmp_path / "data.zarr")
    fill(store)
    with pytest.raises(DataError, match=told):
        learn(tmp_path / "run", store)
    assert not list((tmp_path / "run").iterdir())


def test_pictures_are_refused_by_name(tmp_path: Path):
    picture = TensorSpec(shape=(4, 4, 3), dtype="uint8")
    spec = ObsSpec(items={**OBS.items, "wrist": picture})
    store = empty_store(tmp_path / "data.zarr", spec)
    for number in range(12):
        episode = marked_episode(number, success=bool(number % 2))
        shape = (len(episode["act"]), *picture.shape)
        episode["obs"]["wrist"] = np.zeros(shape, np.uint8)
        store.append(episode)
    with pytest.raises(DataError, match=r"such as pictures.*found 'wrist' uint8"):
        learn(tmp_path / "run", store)
    assert not list((tmp_path / "run").iterdir())


def test_values_that_are_not_finite_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store, read = marked_store(tmp_path / "data.zarr"), ZarrStore.read

    def spoilt(self: ZarrStore, *args: Any) -> dict[str, Any]:
        rows = read(self, *args)
        if "obs.place" in rows:
            rows["obs.place"][3] = np.nan
        return rows

    monkeypatch.setattr(ZarrStore, "read", spoilt)
    with pytest.raises(DataError, match=r"'obs.place' is not finite.*finite numbers, found"):
        learn(tmp_path / "run", store)
    assert not list((tmp_path / "run").iterdir())


def test_shares_that_leave_nothing_to_learn_from_are_refused():
    with pytest.raises(ValueError, match="leave no episode to learn from"):
        SplitFractions(calibration=0.5, test=0.5)
