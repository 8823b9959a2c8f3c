"""The whole road on images, from demonstrations to a bundle that takes bytes."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from small_images import make_seeing_policy
from small_runs import EXPERIMENT, STAGES, outcome

from robo_rl import Bundle
from robo_rl.algo.off_policy.td3 import Td3
from robo_rl.config.models import ConfigTree
from robo_rl.core.errors import DataError, DeviceError, Notice, RoboRlError
from robo_rl.core.spec import ObsSpec, TensorSpec
from robo_rl.data.rollout import Rollout
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.train.checkpoint.policies import load_policy
from robo_rl.train.pipeline.run import run_experiment
from robo_rl.train.pipeline.world_specs import check_same_specs
from robo_rl.train.stages.data import collect_demonstrations

SEES = ["joint_pos", "goal_pos", "front_rgb"]
CAMERA = {"name": "front", "width": 36, "height": 36}
POLICY = {
    **EXPERIMENT["policy"],
    "sees": SEES,
    "finetune_steps": 1,
    "encoder": {"name": "conv", "channels": [4, 4, 4], "width": 8},
}


def _with_critic(**critic: Any) -> dict[str, Any]:
    """The stages with other settings of PPO's critic."""
    algo = {**STAGES["online"]["algo"], "critic": {**STAGES["online"]["algo"]["critic"], **critic}}
    return {**STAGES, "online": {**STAGES["online"], "algo": algo}}


def seeing(stages=STAGES, camera=CAMERA, **policy) -> ConfigTree:
    """The tiny experiment with a camera."""
    body: dict[str, Any] = {
        **EXPERIMENT,
        "env": {"name": "sim", "cameras": [camera], "rendering": {"workers": 1}},
        "policy": {**POLICY, **policy},
        "stages": stages,
        "waive": {name: "short" for name in stages if name != "export"},
    }
    return ConfigTree(body, {})


@pytest.mark.slow
def test_the_whole_road(tmp_path: Path, opengl):
    stages = {**STAGES, "export": {"latency_calls": 100}}
    run_experiment(seeing(stages), [], tmp_path)
    folder = tmp_path / "tiny"
    assert len(list(folder.glob("0*/report.json"))) == 5
    clone, tuned = (load_policy(folder / f"{name}/policy") for name in ("01-bc", "02-online"))
    eyes = [dict(each.net.encoder.named_parameters()) for each in (clone, tuned)]
    assert any(not torch.equal(eyes[0][name], eyes[1][name]) for name in eyes[0])
    assert tuned.reference_net is not None
    frozen = dict(cast(Any, tuned.reference_net).encoder.named_parameters())
    assert all(torch.equal(eyes[0][name], frozen[name]) for name in frozen)

    bundle = Bundle.load(folder / "04-export/bundle")
    items = bundle.manifest.contract.obs.items
    assert set(items) == set(SEES)
    assert items["front_rgb"].dtype == "uint8"
    obs = {name: np.zeros((1, 1, *spec.shape), spec.dtype) for name, spec in items.items()}
    chunk = bundle.session().act(obs, np.random.default_rng(0))
    assert np.isfinite(chunk).all()


@pytest.mark.slow  # test_start_states and test_load_dataset hold the parts
def test_recordings_without_poses_of_objects_train_a_policy_that_sees_none(tmp_path, opengl):
    blind = ["joint_pos", "front_rgb"]
    collect = {"collect": STAGES["collect"]}
    run_experiment(seeing(collect, sees=blind), [], tmp_path)
    whole = ZarrStore.open(tmp_path / "tiny/00-collect/data.zarr")
    spec = whole.obs_spec.select(blind, "obs")
    robot = ZarrStore.create(tmp_path / "robot.zarr", spec, whole.act_spec, {})
    keys = [*(f"obs.{name}" for name in blind), "act", "rew", "terminated", "truncated"]
    for each in whole.episodes:
        rows = whole.read(keys, [each])
        obs = {name: rows.pop(f"obs.{name}") for name in blind}
        robot.append({"obs": obs, **rows, "success": bool(each.success)})
    stages = {
        "dataset": {"path": str(robot.path)},
        "bc": {"steps": 5, "batch": 16},
        "record": {"episodes": 2, "num_envs": 2, "append": True},
        "online": STAGES["online"],
    }
    run_experiment(seeing(stages, sees=blind), [], tmp_path / "again")
    folder = tmp_path / "again/tiny"
    both = ZarrStore.open(folder / "02-record/data.zarr")
    assert len(both.episodes) == len(whole.episodes) + 2
    assert set(both.obs_spec.items) == set(blind)
    tuned = load_policy(folder / "03-online/policy")
    assert set(tuned.obs_spec.items) == set(blind)
    assert set(tuned.env_spec.items) == set(whole.obs_spec.items)
    starts = tuned.normalizer.affine("obs.goal_pos")
    assert bool((starts.scale != 1.0).any())
    offline = {name: stages[name] for name in ("dataset", "bc")} | {"offline": {}}
    with pytest.raises(DataError, match=r"than the env has: .*goal_pos.*'offline' learns values"):
        run_experiment(seeing(offline, sees=blind), [], tmp_path / "offline")
    assert not (tmp_path / "offline/tiny/01-bc").exists()


def _online(**fields: Any) -> dict[str, Any]:
    return {**STAGES, "online": {**STAGES["online"], **fields}}


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        (_online(decisions=100_000_000), r"memory for a rollout of .*00,000,000 decisions"),
        (
            _online(algo={"name": "td3", "replay": {"capacity": 10**9}}),
            "disk space for a replay buffer of 1,000,000,000 rows",
        ),
        (
            {**STAGES, "distill": {**STAGES["distill"], "decisions": 100_000_000}},
            "memory for .* visited states",
        ),
    ],
)
def test_too_little_room_is_said_before_anything_is_recorded(stages, said, tmp_path, opengl):
    with pytest.raises(RoboRlError, match=rf"too little {said}"):
        run_experiment(seeing(stages), [], tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow  # tests/data/images resumes the files themselves
def test_a_stopped_run_finds_the_images_of_its_replay_buffer_in_files(
    tmp_path, opengl, monkeypatch
):
    algo = {"name": "td3", "warmup_decisions": 8, "minibatch": 16, "critic": {"hidden": [16]}}
    online = _online(algo=algo, updates=4)["online"]
    road = seeing({"collect": STAGES["collect"], "bc": {"steps": 5, "batch": 16}, "online": online})
    run_experiment(road, [], tmp_path / "whole")
    learn = Td3.update

    def stopped(self: Td3, rollout: Rollout) -> dict[str, float]:
        if self.updates == 2:
            raise KeyboardInterrupt
        return learn(self, rollout)

    with monkeypatch.context() as patched:
        patched.setattr(Td3, "update", stopped)
        with pytest.raises(KeyboardInterrupt):
            run_experiment(road, [], tmp_path / "stopped")
    run_experiment(road, [], tmp_path / "stopped")
    whole, again = (outcome(tmp_path / name / "tiny") for name in ("whole", "stopped"))
    assert whole == again
    stage = tmp_path / "stopped/tiny/02-online"
    assert list(stage.glob("replay/*.images"))
    largest = max(file.stat().st_size for file in stage.glob("ckpt/*/tensors.safetensors"))
    assert largest < 2**20


def test_demonstrations_beyond_the_memory_are_told_at_the_first_wave(tmp_path, opengl, monkeypatch):
    monkeypatch.setattr(collect_demonstrations, "fits_memory", lambda needed: False)
    with pytest.warns(Notice, match=r"need about .* GB.*read the images from files"):
        run_experiment(seeing({"collect": STAGES["collect"]}), [], tmp_path)


def test_images_beyond_the_disk_are_an_error_at_the_first_wave(tmp_path, opengl, monkeypatch):
    collect = {**STAGES["collect"], "num_envs": 2, "episodes": 1000}
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1_000_000))
    with pytest.raises(
        DeviceError, match=r"disk space for 1,000 episodes with images.*in a run of another name"
    ):
        run_experiment(seeing({"collect": collect}), [], tmp_path)
    (place,) = tmp_path.glob("*/*-collect")
    assert len(ZarrStore.open(place / "data.zarr").episodes) == 2


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"encoder": "state"}, "policy.encoder=conv"),
        ({"sees": [*SEES, "wrist_rgb"]}, "no item 'wrist_rgb'"),
        ({"sees": ["joint_pos"]}, "no image among the observations"),
        ({"camera": {**CAMERA, "name": "frond"}}, "no camera 'frond'; did you mean 'front'"),
        ({"camera": {**CAMERA, "width": 20}}, "images are too small for the encoder 'conv'"),
        ({"stages": _with_critic(sees=["goal"])}, "critic.sees: no item 'goal'"),
    ],
)
def test_what_cannot_be_seen_is_one_line_before_anything_is_recorded(
    tmp_path: Path, opengl, fields, said
):
    with pytest.raises(RoboRlError) as caught:
        run_experiment(seeing(**fields), [], tmp_path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_policy_of_another_size_of_images_is_refused():
    policy = make_seeing_policy()
    env: Any = SimpleNamespace(obs_spec=policy.env_spec, act_spec=policy.act_spec)
    check_same_specs(Path("policy"), policy.env_spec, policy.act_spec, env)
    wide = {"front_rgb": TensorSpec(shape=(3, 36, 48), dtype="uint8")}
    env.obs_spec = ObsSpec(items={**policy.env_spec.items, **wide})
    with pytest.raises(DataError, match=r"front_rgb.*36, 48.*36, 44") as caught:
        check_same_specs(Path("policy"), policy.env_spec, policy.act_spec, env)
    assert "\n" not in str(caught.value)
