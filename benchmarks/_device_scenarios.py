"""Families, algorithms and parts of stages, each a short run that gives back its numbers.

A scenario takes a device and gives tensors, all of which are the same on every device up to
rounding if the random numbers are. ``gpu_audit.py`` runs all of them on a GPU; the tests run them
on a pretended one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from _device_world import (
    EYES,
    NUM_ENVS,
    GoalEnv,
    generator,
    make_block,
    make_collector,
    make_policy,
    make_replay,
    observations,
)
from torch import Tensor, nn

from robo_rl.algo.encoded_obs import EncodedObs
from robo_rl.algo.offline.base import OfflineInputs
from robo_rl.algo.on_policy_distillation import Teacher, chain_kl
from robo_rl.algo.same_noise_distillation import same_noise_loss
from robo_rl.algo.supervised import SupervisedTrainer, draw_rows
from robo_rl.config.component import component
from robo_rl.data.images.image_augmentation import ImageAugmentation
from robo_rl.data.running_obs_stats import RunningObsStats
from robo_rl.policy.one_step import make_one_step_student
from robo_rl.train.checkpoint.policies import load_policy, save_policy
from robo_rl.train.checkpoint.pytree import flatten, unflatten
from robo_rl.train.evaluation.evaluate import EvalProtocol, evaluate

Scenario = Callable[[torch.device], Sequence[Tensor]]


def of_policy(family: str, **fields: Any) -> Scenario:
    """Act, explore, score, and differentiate the cloning loss."""

    def run(device: torch.device) -> Sequence[Tensor]:
        policy = make_policy(device, family, **fields)
        obs, draws = observations(device), generator(device)
        act, chain = policy.act(obs, draws), policy.sample(obs, draws)
        first = torch.zeros(len(act), dtype=torch.int64, device=device)
        scored = policy.log_prob(obs, first, chain.x[:, 0], chain.x[:, 1])
        found = [act, chain.x, chain.log_prob, scored]
        if policy.num_steps > 1 and bool(policy.trainable_steps.any()):
            found.append(policy.sample(obs, draws, single_step=True).x)
        policy.loss(obs, chain.act.detach(), draws).mean().backward()
        return [*found, *(p.grad for p in policy.parameters() if p.grad is not None)]

    return run


def of_algorithm(name: str, policy: dict[str, Any] | None = None, **cfg: Any) -> Scenario:
    """Two updates, a checkpoint and the way back from it, and one more."""

    def run(device: torch.device) -> Sequence[Tensor]:
        trained = make_policy(device, **(policy or {}))
        algo = component("algos").make({"name": name, "minibatch": 64, **cfg})
        torch.manual_seed(7)
        made = algo.build(trained, NUM_ENVS, generator(device, 9))
        for _ in range(2):
            made.update(make_block(trained, device, single_step=made.single_step))
        made.load_state_dict(from_checkpoint(made.state_dict()))
        made.update(make_block(trained, device, single_step=made.single_step))
        return weights(trained)

    return run


def of_offline(critics: str, algo: str | None = None) -> Scenario:
    """Two steps of critics on logged decisions, and two of what improves the policy by them."""

    def run(device: torch.device) -> Sequence[Tensor]:
        policy, replay = make_policy(device), make_replay(device)
        draws = generator(device, 1)
        learnt = component("critics").make({"name": critics}).build(policy, replay, draws)
        for _ in range(2):
            learnt.step()
        found = [*weights(learnt.critic), *weights(learnt.value)]
        if algo is not None:
            inputs = OfflineInputs(policy, learnt, replay, 10, generator(device, 2))
            made = component("offline_algos").make({"name": algo}).build(inputs)
            for _ in range(2):
                made.step()
            found += weights(made.policy)
        return found

    return run


def collect(device: torch.device) -> Sequence[Tensor]:
    """Two blocks with correlated noise, each behind a checkpoint."""
    policy = make_policy(device, correlation={"start": 0.5, "noise": 0.3})
    collector, blocks = make_collector(device), list[Tensor]()
    for _ in range(2):
        collector.load_state_dict(from_checkpoint(collector.state_dict()))
        rollout, metrics = collector.collect(policy, 8)
        outcomes = collector.finish_block()
        figures = torch.tensor([metrics["rew_per_step"], metrics["jerk"]])
        blocks += [rollout.x, rollout.ended, figures, outcomes.returns]
    return blocks


def of_sight(name: str) -> Scenario:
    """Cloning with augmentation, a student, an update of PPO with a critic that sees no image."""

    def run(device: torch.device) -> Sequence[Tensor]:
        policy = make_policy(device, encoder={"name": name, **EYES[name]}, finetune_steps=1)
        obs, draws = observations(device, sees=True), generator(device)
        act = torch.rand(32, 4, 2, generator=draws, device=device)
        trainer = SupervisedTrainer(SupervisedTrainer.Config(), policy, 10)
        augment = ImageAugmentation(ImageAugmentation.Config(), policy.obs_spec.image_names)
        for _ in range(2):
            trainer.step(policy.loss(augment(obs, draws), act, draws))
        student = make_one_step_student(policy)
        student_loss = same_noise_loss(student, policy, EncodedObs(draw_rows(obs, 8, draws)), draws)
        policy.freeze_reference()
        algo = component("algos").make({"name": "ppo", "minibatch": 64, **PPO, "warmup_updates": 0})
        made = algo.build(policy, NUM_ENVS, generator(device, 9))
        made.update(make_block(policy, device))
        return [student_loss, *weights(policy)]

    return run


def clone(device: torch.device) -> Sequence[Tensor]:
    """Three steps of behaviour cloning."""
    policy = make_policy(device)
    trainer = SupervisedTrainer(SupervisedTrainer.Config(), policy, 10)
    obs, draws = observations(device), generator(device)
    act = torch.rand(32, 4, 2, generator=draws, device=device)
    for _ in range(3):
        trainer.step(policy.loss(obs, act, draws))
    return [*weights(policy), *weights(trainer.ema.module)]


def distill(device: torch.device) -> Sequence[Tensor]:
    """Three steps of a one-step student."""
    teacher = make_policy(device)
    torch.manual_seed(1)
    student = make_one_step_student(teacher)
    trainer = SupervisedTrainer(SupervisedTrainer.Config(), student, 10)
    obs, draws = observations(device), generator(device)
    for _ in range(3):
        rows = EncodedObs(draw_rows(obs, 16, draws))
        trainer.step(same_noise_loss(student, teacher, rows, draws))
    return weights(student)


def distill_on_policy(device: torch.device) -> Sequence[Tensor]:
    """Three steps of a student towards the chains of a teacher."""
    student = make_policy(device)
    other = make_policy(device)
    with torch.no_grad():
        for weight in other.net.parameters():
            weight.mul_(1.1)
    teacher = Teacher(other, student)
    trainer = SupervisedTrainer(SupervisedTrainer.Config(), student, 10)
    obs, draws = observations(device), generator(device)
    for _ in range(3):
        trainer.step(chain_kl(student, teacher, EncodedObs(draw_rows(obs, 16, draws)), 0.1, draws))
    return weights(student)


def track(device: torch.device) -> Sequence[Tensor]:
    """A normaliser that follows what is seen."""
    policy = make_policy(device)
    RunningObsStats(policy.normalizer).update(observations(device))
    return [policy.features(observations(device)).vectors]


def judge(device: torch.device) -> Sequence[Tensor]:
    """An evaluation."""
    policy = make_policy(device)
    found = evaluate(
        policy.act,
        lambda num_envs: GoalEnv(device),
        EvalProtocol(episodes=NUM_ENVS, num_envs=NUM_ENVS),
        obs_horizon=2,
        exec_horizon=2,
        protocol_hash="",
    )
    return [found.returns, found.lengths]


def keep(device: torch.device) -> Sequence[Tensor]:
    """A policy that is saved and loaded."""
    policy = make_policy(device)
    with tempfile.TemporaryDirectory() as folder:
        return weights(load_policy(save_policy(Path(folder) / "policy", policy)))


def from_checkpoint(state: Any) -> Any:
    """State as a checkpoint gives it back, on the host."""
    tensors, rest = flatten(state)
    return unflatten({name: x.detach().cpu().clone() for name, x in tensors.items()}, rest)


def weights(module: nn.Module) -> list[Tensor]:
    return [param.detach().clone() for param in module.parameters()]


PENALTIES: dict[str, Any] = {
    "forward_kl": 0.1,
    "reverse_kl": 0.1,
    "bc_reference": 0.1,
    "bc_rollout": 0.1,
}
PPO: dict[str, Any] = {"warmup_updates": 1, "epochs": 2, "critic_epochs": 2}
REPLAYED: dict[str, Any] = {"warmup_decisions": 0, "utd_ratio": 0.05}
LAST_STEP: dict[str, Any] = {"finetune_steps": 1}
LEARNT_STD: dict[str, Any] = {"name": "gaussian", "std_min": 0.02, "std_max": 0.5}
C51: dict[str, Any] = {"head": {"kind": "categorical", "bounds": [-20, 1]}}
OFFLINE_ALGOS = ("awr", "td3_bc", "fql", "expo", "dsrl", "parl", "aloe", "bppo")

SCENARIOS: dict[str, Scenario] = {
    "policy flow_noise": of_policy("flow"),
    "policy flow_sde": of_policy("flow", sampler={"name": "flow_sde"}),
    "policy flow_cps": of_policy("flow", sampler={"name": "flow_cps"}),
    "policy flow chunk_correlation 1": of_policy(
        "flow", sampler={"name": "flow_noise", "chunk_correlation": 1.0}
    ),
    "policy flow chunk_correlation 0.5": of_policy(
        "flow", sampler={"name": "flow_noise", "chunk_correlation": 0.5}
    ),
    "policy flow unet1d": of_policy("flow", net={"name": "unet1d"}),
    "policy ddpm": of_policy("diffusion", sampler={"name": "ddpm"}),
    "policy ddim": of_policy("diffusion", sampler={"name": "ddim", "train_steps": 20}),
    "policy gaussian": of_policy("gaussian", sampler={"name": "gaussian"}),
    "ppo joint": of_algorithm("ppo", **PPO),
    "ppo guard": of_algorithm("ppo", **PPO, ratio_norm="guard"),
    "ppo per_step": of_algorithm("ppo", **PPO, ratio="per_step", clip_base=0.01),
    "ppo single_step": of_algorithm(
        "ppo", {"sampler": {"name": "flow_sde"}}, **PPO, ratio="single_step"
    ),
    "ppo noise_conditioned": of_algorithm("ppo", **PPO, ratio="noise_conditioned"),
    "ppo reuse": of_algorithm("ppo", **PPO, reused_rollouts=1),
    "ppo cfm": of_algorithm("ppo", **PPO, ratio="cfm"),
    "ppo regularization": of_algorithm("ppo", **PPO, entropy_coef=0.01, regularization=PENALTIES),
    "ppo averages": of_algorithm("ppo", **PPO, ema_decay=0.9, proximal_ema=0.9, trust_region="spo"),
    "ppo bf16": of_algorithm("ppo", **PPO, precision="bf16"),
    "ppo graphs": of_algorithm("ppo", **PPO, cuda_graphs=True),
    "ppo graphs bf16": of_algorithm("ppo", **PPO, precision="bf16", cuda_graphs=True),
    "ppo last steps": of_algorithm("ppo", {"finetune_steps": 2}, **PPO),
    "ppo groups": of_algorithm("ppo", group_size=4, epochs=2),
    "nft": of_algorithm("nft", warmup_updates=1, critic_epochs=2),
    "sac gaussian": of_algorithm("sac", {"family": "gaussian", "sampler": LEARNT_STD}, **REPLAYED),
    "sac flow": of_algorithm("sac", LAST_STEP, **REPLAYED),
    "td3 flow": of_algorithm("td3", LAST_STEP, **REPLAYED),
    "td3 c51": of_algorithm("td3", LAST_STEP, **REPLAYED, critic=C51),
    **{f"sight {name}": of_sight(name) for name in EYES},
    "collector": collect,
    "clone": clone,
    "distill": distill,
    "tracker": track,
    "evaluate": judge,
    "save": keep,
    "iql": of_offline("iql"),
    "cal_ql": of_offline("cal_ql"),
    **{f"offline {name}": of_offline("iql", name) for name in OFFLINE_ALGOS},
}
