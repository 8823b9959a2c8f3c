"""How often the host waits for a GPU: a budget for each decision and each minibatch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pretended_gpu import GPU, PretendedGpu

from robo_rl.algo.supervised import SupervisedTrainer
from robo_rl.config.registry import component

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

WORLD = import_module("_device_world")


def waits_between(run: Callable[[int], object], few: int, many: int) -> float:
    """Waits that one more of what is run so many times costs."""
    found: dict[int, int] = {}
    for number in (few, few, many):  # the first time tables are brought over
        before = sum(PretendedGpu.current.waits.values()) if PretendedGpu.current else 0
        run(number)
        assert PretendedGpu.current is not None
        found[number] = sum(PretendedGpu.current.waits.values()) - before
    return (found[many] - found[few]) / (many - few)


def test_a_decision_costs_no_wait_and_a_block_a_few():
    with PretendedGpu() as gpu:
        policy = WORLD.make_policy(GPU, correlation={"start": 0.5, "noise": 0.3})
        collector = WORLD.make_collector(GPU)
        assert waits_between(lambda number: collector.collect(policy, number), 4, 12) == 0.0
        before = sum(gpu.waits.values())
        collector.collect(policy, 4)
        collector.finish_block()
        assert sum(gpu.waits.values()) - before <= 8


@pytest.mark.parametrize(
    ("budget", "fields"),
    [
        (1.0, {}),
        (1.0, {"proximal_ema": 0.9, "ema_decay": 0.9}),
        (1.0, {"entropy_coef": 0.01, "regularization": {"forward_kl": 0.1, "bc_rollout": 0.1}}),
        (1.0, {"precision": "bf16"}),
        (2.0, {"ratio": "per_step", "minibatch": 64}),  # and how many observations are distinct
    ],
)
def test_a_minibatch_of_the_actor_costs_one_wait_for_its_kl(budget: float, fields: dict[str, Any]):
    with PretendedGpu():
        policy = WORLD.make_policy(GPU)
        settings = {"name": "ppo", "warmup_updates": 0, "minibatch": 16, "target_kl": 0.0}
        algo = component("algos").make({**settings, "lr": 1e-9, "lr_min": 1e-9, **fields})
        made = algo.build(policy, WORLD.NUM_ENVS, WORLD.generator(GPU))
        block = WORLD.make_block(policy, GPU)
        _, adv, _ = made.advantage_estimator.compute_advantages(block)

        def fit(epochs: int) -> None:
            made.actor.cfg = made.actor.cfg.model_copy(update={"epochs": epochs})
            made.actor.update(block, adv)

        minibatches = 8
        now_and_then = 0.15  # of gradients that are not finite it is asked every 20 steps
        assert waits_between(fit, 1, 3) / minibatches <= budget + now_and_then


def test_a_minibatch_of_the_critic_and_a_step_of_cloning_cost_none():
    with PretendedGpu():
        policy = WORLD.make_policy(GPU)
        obs, draws = WORLD.observations(GPU), WORLD.generator(GPU)
        trainer = SupervisedTrainer(SupervisedTrainer.Config(), policy, 100)
        act = policy.act(obs, draws).detach()

        def clone(steps: int) -> None:
            for _ in range(steps):
                trainer.step(policy.loss(obs, act, draws))

        assert waits_between(clone, 2, 12) <= 0.1
        algo = component("algos").make({"name": "ppo", "critic_minibatch": 16})
        made, block = algo.build(policy, WORLD.NUM_ENVS, draws), WORLD.make_block(policy, GPU)

        def credit(epochs: int) -> None:
            made.advantage_estimator.cfg = made.advantage_estimator.cfg.model_copy(
                update={"critic_epochs": epochs}
            )
            made.advantage_estimator.compute_advantages(block)

        assert waits_between(credit, 1, 5) / 8 <= 0.1


@pytest.mark.parametrize("name", ["sac", "td3"])
def test_a_gradient_step_off_policy_asks_once_what_was_cut_short(name: str):
    with PretendedGpu():
        policy = WORLD.make_policy(GPU, finetune_steps=1)
        settings = {"minibatch": 32, "warmup_decisions": 0, "utd_ratio": 0.05}
        algo = component("algos").make({"name": name, **settings})
        made = algo.build(policy, WORLD.NUM_ENVS, WORLD.generator(GPU))
        made.update(WORLD.make_block(policy, GPU))

        def step(number: int) -> None:
            for _ in range(number):
                made._step()

        assert waits_between(step, 2, 12) <= 1.2
