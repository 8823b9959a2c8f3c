"""Demonstrations with physics on a GPU: experts act on the CPU, and nothing mixes devices."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pretended_gpu import CPU, GPU, PretendedGpu

from robo_rl.env.device_transfer import on_device
from robo_rl.train.stages.data.collect_demonstrations import (
    CollectDemonstrations,
    find_demonstrator,
)

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

STEPS = 6


@pytest.mark.parametrize(
    ("task", "actions"),
    [
        pytest.param("coloured_table", "pose_delta", marks=pytest.mark.slow),
        pytest.param("lift_cube", "joints", marks=pytest.mark.slow),
        ("lift_cube", "pose"),
        ("push_t", "joints_delta"),
        pytest.param("reach", "pose_delta", marks=pytest.mark.slow),
    ],
)
def test_an_expert_demonstrates_with_physics_on_a_gpu(
    task: str, actions: str, monkeypatch: pytest.MonkeyPatch
):
    """A pose is computed from set points on the CPU between controls on the GPU."""
    cfg = CollectDemonstrations.Config(episodes=2, num_envs=2, noise=0.3)
    stage: Any = CollectDemonstrations(cfg)
    monkeypatch.setattr(stage, "_tell_memory", lambda *_: None)
    with PretendedGpu():
        given = {"name": task, "actions": actions, "episode_s": STEPS / 20}
        env = import_module("_device_physics").sim_env(GPU, 2, given)
        assert env.max_episode_steps == STEPS
        near = on_device(env, CPU)
        episodes = stage._wave(near, find_demonstrator(near), 0, 0)
        env.close()
    assert len(episodes) == 2
    assert all(len(each["act"]) <= STEPS for each in episodes)
