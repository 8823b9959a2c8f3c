"""Wall time of a PPO update for the three ratio modes, per 10⁵ env decisions.

Every side learns from the same number of decisions of a made-up world with the same network and
the same number of optimiser steps: a minibatch is the same number of decisions, which is ten times
as many likelihood ratios where each of the last ten denoising steps is one (``per_step``, the
setting of DPPO). An update is one epoch of the critic and one of the actor, without a KL stop. The
actor's learning rate is so small that no weight changes, so that one set of chains serves every
repeat; the work is the same.

The sides take turns. ``scored`` is the number of denoising steps of a chain that are scored,
``s per 1e5`` the median over the repeats, ``ratio`` the median of each repeat's own time over that
of ``per_step``.

    python benchmarks/update_speed.py [--json FILE] [--decisions 4096] [--repeats 7]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from robo_rl.algo.ppo import Ppo
from robo_rl.algo.ratio import RatioMode
from robo_rl.data.normalize import Normalizer
from robo_rl.data.rollout import Rollout, RolloutBuilder, executed
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.registry import component
from robo_rl.spec import ActSpec, ObsSpec, TensorSpec

OBS = ObsSpec(items={"state": TensorSpec(shape=(39,))})
ACT = ActSpec(shape=(8,), rate_hz=20.0, low=(-1.0,) * 8, high=(1.0,) * 8)
HORIZON = 8
BLOCK = 8  # decisions of an env in a rollout
BASE = "per_step"


class Side(NamedTuple):
    """Whom a ratio mode trains in its paper, and how many steps of a chain it scores."""

    policy: str
    sampler: str
    num_steps: int
    scored_steps: int
    finetune_steps: int = 0


SIDES = {
    "per_step": Side("diffusion", "ddpm", num_steps=20, scored_steps=10, finetune_steps=10),
    "joint": Side("flow", "flow_noise", num_steps=4, scored_steps=4),
    "one_step": Side("flow", "flow_sde", num_steps=4, scored_steps=1),
}


def main() -> None:
    args = _arguments()
    updates = {mode: prepared(mode, args.decisions, args.minibatch) for mode in SIDES}
    seconds: dict[str, list[float]] = {mode: [] for mode in SIDES}
    for repeat in range(args.repeats + 1):
        for mode in list(SIDES)[:: -1 if repeat % 2 else 1]:
            spent = timed(updates[mode]) * 1e5 / args.decisions
            if repeat:  # 0 warms up
                seconds[mode].append(spent)
    results = {mode: _summary(seconds[mode], seconds[BASE]) for mode in SIDES}
    print(
        f"{args.decisions} decisions, minibatch {args.minibatch} decisions,"
        f" {torch.get_num_threads()} threads, median of {args.repeats}"
    )
    print(f"{'ratio mode':12}{'sampler':12}{'K':>4}{'scored':>8}{'s per 1e5':>12}{'ratio':>8}")
    for mode, row in results.items():
        side = SIDES[mode]
        print(
            f"{mode:12}{side.sampler:12}{side.num_steps:4}{side.scored_steps:8}"
            f"{row['seconds_per_1e5']:12.2f}{row['ratio']:8.3f}"
        )
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


def prepared(mode: str, decisions: int, minibatch: int) -> Callable[[], object]:
    """One update of a ratio mode from made-up decisions, ready to run any number of times."""
    policy = make_policy(SIDES[mode])
    generator = torch.Generator().manual_seed(0)
    rollout = make_rollout(policy, decisions, generator, one_step=mode == "one_step")
    units = SIDES[mode].scored_steps if mode == "per_step" else 1
    cfg = Ppo.Config(
        ratio=RatioMode(mode),
        epochs=1,
        critic_epochs=1,
        warmup_updates=0,
        minibatch=minibatch * units,
        target_kl=1e6,
        **dict.fromkeys(("lr", "lr_min", "lr_max"), 1e-12),
    )
    ppo = Ppo(cfg, policy, decisions // BLOCK, generator)
    return lambda: ppo.update(rollout)


def make_policy(side: Side) -> DenoisingPolicy:
    """A policy of the side's family with random weights."""
    torch.manual_seed(0)
    settings: dict[str, Any] = {
        "name": side.policy,
        "sampler": side.sampler,
        "num_steps": side.num_steps,
        "finetune_steps": side.finetune_steps,
        "horizon": HORIZON,
        "exec_horizon": HORIZON,
        "net": "mlp",
    }
    policy = component("policies").make(settings).build(OBS, ACT, Normalizer.identity(OBS, ACT))
    if side.finetune_steps:
        policy.anchor()
    return policy


@torch.no_grad()
def make_rollout(
    policy: DenoisingPolicy, decisions: int, generator: torch.Generator, *, one_step: bool
) -> Rollout:
    """Chains of the policy on random observations, with random rewards and no end of an episode."""
    num_envs = decisions // BLOCK
    builder = RolloutBuilder()
    num_exec = torch.full((num_envs,), HORIZON)
    no, obs = torch.zeros(num_envs, dtype=torch.bool), _observation(num_envs, generator)
    for _ in range(BLOCK):
        chain = policy.sample(obs, generator, one_step=one_step)
        mask = executed(num_exec, HORIZON)[:, None]
        columns = {
            "x": chain.x,
            "log_prob": (chain.log_prob * mask).sum(dim=(2, 3)),
            "rew": torch.rand(num_envs, generator=generator),
            "terminated": no,
            "truncated": no,
            "valid": ~no,
            "discount": torch.full((num_envs,), 0.99),
            "num_exec": num_exec,
        }
        if chain.k_star is not None:
            columns["k_star"] = chain.k_star
        successor = _observation(num_envs, generator)
        builder.add(obs, successor, columns)
        obs = successor
    return builder.finish(obs)


def _observation(num_envs: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"state": torch.randn(num_envs, 1, *OBS.items["state"].shape, generator=generator)}


def timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _summary(seconds: list[float], base: list[float]) -> dict[str, float]:
    ratios = [own / other for own, other in zip(seconds, base, strict=True)]
    return {"seconds_per_1e5": statistics.median(seconds), "ratio": statistics.median(ratios)}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--decisions", type=int, default=4096, help="of one update, all envs")
    parser.add_argument("--minibatch", type=int, default=512, help="decisions of an optimiser step")
    parser.add_argument("--repeats", type=int, default=7)
    return parser.parse_args()


if __name__ == "__main__":
    main()
