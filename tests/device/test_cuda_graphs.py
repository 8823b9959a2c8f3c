"""PPO by CUDA graphs: the weights of an update without, on a pretended GPU."""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from pretended_gpu import CPU, GPU, PretendedGpu, on_cpu
from pretended_graphs import PretendedGraph, install

from robo_rl.algo.ppo.ppo import Ppo
from robo_rl.config.component import component
from robo_rl.core.errors import ConfigError
from robo_rl.nets.encoders.frozen import FrozenEncoder

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

WORLD = import_module("_device_world")
COUNTS = import_module("_wait_counts")


SIZES = 2
"""Numbers of rows of a minibatch, 43 and 42 of 128 decisions: a graph each of actor and critic."""


@pytest.fixture(autouse=True)
def _graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)


@pytest.mark.parametrize(
    ("policy", "fields"),
    [
        pytest.param({}, {}, marks=pytest.mark.slow),
        ({}, {"target_kl": 1e-3, "lr_probe": False, "lr": 1e-3}),
        pytest.param({}, {"ratio": "noise_conditioned"}, marks=pytest.mark.slow),
        pytest.param({}, {"ratio": "single_step"}, marks=pytest.mark.slow),
        pytest.param({"sampler": "flow_cps"}, {}, marks=pytest.mark.slow),
        pytest.param({"sampler": "flow_ode"}, {"ratio": "cfm"}, marks=pytest.mark.slow),
        pytest.param({}, {"proximal_ema": 0.9, "ema_decay": 0.9}, marks=pytest.mark.slow),
        pytest.param(
            {},
            {"entropy_coef": 0.01, "regularization": {"forward_kl": 0.1, "bc_rollout": 0.1}},
            marks=pytest.mark.slow,
        ),
        ({}, {"precision": "bf16"}),
        pytest.param(
            {"family": "diffusion", "num_steps": 5, "finetune_steps": 2},
            {"ratio_norm": "guard"},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"family": "diffusion", "num_steps": 5}, {"ratio": "cfm"}, marks=pytest.mark.slow
        ),
        ({"encoder": {"name": "conv", **WORLD.EYES["conv"]}}, {"minibatch": 48}),
    ],
)
def test_graphs_leave_an_update_as_it_is(policy: dict[str, Any], fields: dict[str, Any]):
    eager, metrics = updated(policy, fields)
    assert PretendedGraph.replays == 0
    gc.collect()
    alive = PretendedGraph.alive
    gc.disable()  # what an update captured ends with it, not when Python looks for cycles
    try:
        graphed, again = updated(policy, {**fields, "cuda_graphs": True})
        assert PretendedGraph.alive == alive
    finally:
        gc.enable()
    assert PretendedGraph.captured == 2 * SIZES
    assert PretendedGraph.ended_in_capture == 0
    assert metrics == again
    assert all(torch.equal(one, other) for one, other in zip(eager, graphed, strict=True))


def updated(policy: dict[str, Any], fields: dict[str, Any]) -> tuple[list[Any], dict[str, float]]:
    """Weights of actor and critic after an update, and its metrics."""
    with PretendedGpu():
        made = WORLD.make_policy(GPU, **policy)
        settings = {"name": "ppo", "warmup_updates": 0, "minibatch": 56, "critic_minibatch": 48}
        settings |= {"epochs": 2, "critic_epochs": 2}
        algo = component("algos").make({**settings, **fields})
        ppo = algo.build(made, WORLD.NUM_ENVS, WORLD.generator(GPU))
        rollout = WORLD.make_block(made, GPU, single_step=fields.get("ratio") == "single_step")
        metrics = ppo.update(rollout)
        parts = [*made.parameters(), *ppo.advantage_estimator.critic.parameters()]
        return [on_cpu(part.detach()).clone() for part in parts], metrics


def test_an_encoder_that_keeps_features_is_refused(monkeypatch: pytest.MonkeyPatch):
    policy = WORLD.make_policy(CPU)
    monkeypatch.setattr(type(policy.net.encoder), "caches", True)
    cfg = Ppo.Config(cuda_graphs=True)
    with pytest.raises(ConfigError, match=r"keeps features .* found encoder 'state'"):
        Ppo.check_policy(cfg, policy)
    with pytest.raises(ConfigError, match="keeps features"):
        Ppo(cfg, policy, WORLD.NUM_ENVS, torch.Generator())
    assert FrozenEncoder.caches


def test_a_minibatch_still_waits_for_its_kl_alone():
    assert COUNTS.actor_minibatch(cuda_graphs=True) <= 1.15
