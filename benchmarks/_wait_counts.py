"""How often the host waits for a pretended GPU, by what is done once more.

``sees`` gives policy and world an image. The pretended GPU counts reads of values, not of shapes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from _device_physics import sim_env
from _device_world import (
    EYES,
    NUM_ENVS,
    generator,
    make_block,
    make_collector,
    make_policy,
    observations,
)

from robo_rl.algo.supervised import SupervisedTrainer
from robo_rl.config.component import component
from robo_rl.data.images.image_augmentation import ImageAugmentation
from robo_rl.policy.base import DenoisingPolicy

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

_PRETENDED = import_module("pretended_gpu")
GPU, PretendedGpu = _PRETENDED.GPU, _PRETENDED.PretendedGpu

MINIBATCHES = 8


def waits_between(run: Callable[[int], object], few: int, many: int) -> float:
    """Return the waits that one more of what is run so many times costs."""
    found: dict[int, int] = {}
    for number in (few, few, many):  # the first time tables are brought over
        before = waits()
        run(number)
        found[number] = waits() - before
    return (found[many] - found[few]) / (many - few)


def waits() -> int:
    """Return the number of waits so far."""
    assert PretendedGpu.current is not None
    return sum(PretendedGpu.current.waits.values())


def policy_on_gpu(sees: bool, **fields: Any) -> DenoisingPolicy:
    """A small policy of states, or of states and an image."""
    eyes = {"encoder": {"name": "conv", **EYES["conv"]}} if sees else {}
    return make_policy(GPU, **eyes, **fields)


def decision(*, sees: bool = False) -> float:
    """Return the waits of one more decision."""
    with PretendedGpu():
        policy = policy_on_gpu(sees, correlation={"start": 0.5, "noise": 0.3})
        collector = make_collector(GPU, sees=sees)
        return waits_between(lambda number: collector.collect(policy, number), 4, 12)


def control_step(task: Any = "lift_cube", *, sees: bool = False, ends: bool = True) -> float:
    """Return the waits of one more control step of a chunk in ``SimEnv``.

    Args:
        task: Name of the task, or a mapping with its settings.
        sees: Whether the env renders the frame before the next decision.
        ends: Whether the episodes of three envs end in the last step but one, that of a fourth in
            the last.
    """
    with PretendedGpu(), closing(sim_env(GPU, 4, task, sees=sees)) as env:
        still = torch.zeros(4, 8, env.act_spec.size, device=GPU)

        def execute(steps: int) -> None:
            env._clock.max_steps = 100
            env.reset(0)
            env.step(still[:, 0])
            env._restart(torch.tensor([3], device=GPU))
            env._clock.max_steps = steps if ends else 100
            chunk = env.rollout(still[:, :steps], frames=1)
            ended = [int((each.truncated & each.valid).sum()) for each in chunk[-2:]]
            assert ended == ([3, 1] if ends else [0, 0])

        return waits_between(execute, 2, 8)


def block(*, sees: bool = False) -> int:
    """Return the waits of a block of four decisions and its end."""
    with PretendedGpu():
        policy = policy_on_gpu(sees, correlation={"start": 0.5, "noise": 0.3})
        collector = make_collector(GPU, sees=sees)
        collector.collect(policy, 4)
        before = waits()
        collector.collect(policy, 4)
        collector.finish_block()
        return waits() - before


def actor_minibatch(*, sees: bool = False, **fields: Any) -> float:
    """Return the waits of one more minibatch of PPO's actor."""
    with PretendedGpu():
        policy = policy_on_gpu(sees)
        settings = {"name": "ppo", "warmup_updates": 0, "minibatch": 16, "target_kl": 0.0}
        algo = component("algos").make({**settings, "lr": 1e-9, "lr_min": 1e-9, **fields})
        made = algo.build(policy, NUM_ENVS, generator(GPU))
        rollout = make_block(policy, GPU)
        _, adv, _ = made.advantage_estimator.compute_advantages(rollout)

        def fit(epochs: int) -> None:
            made.actor.cfg = made.actor.cfg.model_copy(update={"epochs": epochs})
            made.actor.update(rollout, adv)

        return waits_between(fit, 1, 3) / MINIBATCHES


def critic_minibatch(*, sees: bool = False) -> float:
    """Return the waits of one more minibatch of PPO's critic."""
    with PretendedGpu():
        policy, draws = policy_on_gpu(sees), generator(GPU)
        algo = component("algos").make({"name": "ppo", "critic_minibatch": 16})
        made, rollout = algo.build(policy, NUM_ENVS, draws), make_block(policy, GPU)

        def credit(epochs: int) -> None:
            made.advantage_estimator.cfg = made.advantage_estimator.cfg.model_copy(
                update={"critic_epochs": epochs}
            )
            made.advantage_estimator.compute_advantages(rollout)

        return waits_between(credit, 1, 5) / MINIBATCHES


def cloning_step(*, sees: bool = False) -> float:
    """Return the waits of one more step of cloning, images augmented."""
    with PretendedGpu():
        policy = policy_on_gpu(sees)
        obs, draws = observations(GPU, sees=sees), generator(GPU)
        trainer = SupervisedTrainer(SupervisedTrainer.Config(), policy, 100)
        augment = ImageAugmentation(ImageAugmentation.Config(), policy.obs_spec.image_names)
        act = policy.act(obs, draws).detach()

        def clone(steps: int) -> None:
            for _ in range(steps):
                trainer.step(policy.loss(augment(obs, draws), act, draws))

        return waits_between(clone, 2, 12)


def off_policy_step(name: str, *, sees: bool = False) -> float:
    """Return the waits of one more gradient step of SAC or TD3, images in files as in a run."""
    with PretendedGpu(), TemporaryDirectory() as folder:
        policy = policy_on_gpu(sees, finetune_steps=1)
        settings = {"minibatch": 32, "warmup_decisions": 0, "utd_ratio": 0.05}
        algo = component("algos").make({"name": name, **settings})
        made = algo.build(policy, NUM_ENVS, generator(GPU))
        made.keep_files_in(Path(folder))
        made.update(make_block(policy, GPU))

        def step(number: int) -> None:
            for _ in range(number):
                made._step()

        return waits_between(step, 2, 12)
