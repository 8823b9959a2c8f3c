"""Pictures on their way from an env into a store and back."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_cameras import CAMERAS, SeenTask

from robo_rl.config.component import component
from robo_rl.core.errors import DeviceError, SpecError
from robo_rl.data.dataset import WindowDataset
from robo_rl.data.normalize import Normalizer
from robo_rl.data.store.verify import verify
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.env.mujoco.sim_env import SimEnv
from robo_rl.train.datasets.episode_recorder import RecordedEnv


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A store of three episodes, and what was recorded."""
    cfg = SimEnv.Config.model_validate({"cameras": CAMERAS, "rendering": {"workers": 1}})
    try:
        env = RecordedEnv(SimEnv(cfg, SeenTask(steps=6), 3))
    except DeviceError as error:
        pytest.skip(str(error))
    obs = env.reset(0)
    shown = []
    for _ in range(6):
        shown.append({name: value.clone() for name, value in obs.items()})
        obs = env.step(torch.ones(3, 1)).obs
    env.close()
    path = tmp_path_factory.mktemp("pictures") / "data.zarr"
    store = ZarrStore.create(path, env.obs_spec, env.act_spec, {})
    store.extend(env.recorder.episodes(0, 0))
    return path, shown


def test_pictures_are_kept_as_they_were_seen(recorded):
    path, shown = recorded
    store = ZarrStore.open(path)
    for name in ("front_rgb", "map"):
        key = f"obs.{name}"
        rows = store.read([key], store.episodes)[key]
        assert rows.dtype == np.uint8
        seen = torch.stack([obs[name] for obs in shown], dim=1)  # (3, 6, …)
        assert np.array_equal(rows, seen.flatten(0, 1).numpy())


def test_a_changed_byte_of_a_picture_is_found(recorded):
    path, _ = recorded
    report = verify(path)
    assert report.ok
    assert report.rows == 18
    chunk = next((path / "obs" / "map").glob("c.0*"))
    data = chunk.read_bytes()
    chunk.write_bytes(data[:100] + bytes([data[100] ^ 1]) + data[101:])
    damage = verify(path).damage
    chunk.write_bytes(data)
    assert [found.file for found in damage] == [chunk]


def test_windows_have_pictures_and_statistics_have_none(recorded):
    data = WindowDataset(ZarrStore.open(recorded[0]), obs_horizon=2, horizon=3)
    batch = data.windows(torch.tensor([0, 7]))
    assert batch.obs["front_rgb"].shape == (2, 2, 3, 32, 48)
    assert batch.obs["front_rgb"].dtype == torch.uint8
    assert set(data.stats().keys) == {"obs.cart", "act"}


@pytest.mark.parametrize("family", ["flow", "diffusion", "gaussian"])
def test_a_policy_refuses_pictures_in_one_line(recorded, family):
    store = ZarrStore.open(recorded[0])
    data = WindowDataset(store, obs_horizon=1, horizon=8)
    with pytest.raises(SpecError, match=r"reads vectors alone.*front_rgb") as caught:
        component("policies").make(family).build(
            store.obs_spec, store.act_spec, Normalizer.fit(data)
        )
    assert "\n" not in str(caught.value)
