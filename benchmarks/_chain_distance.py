"""The KL between the chains of two policies, at states of the first one's env."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import torch
from torch import Tensor

from robo_rl.algo.encoded_obs import EncodedObs
from robo_rl.algo.on_policy_distillation import Teacher, chain_kl
from robo_rl.config.compose import compose
from robo_rl.config.models import validate
from robo_rl.core.seeding import make_generator
from robo_rl.env.chunk_env import ChunkEnv
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.policies import load_policy
from robo_rl.train.pipeline.experiment import Experiment

ENVS, DECISIONS = 64, 18
STD_FLOOR = 0.1
"""Least σ of a denoising step, as in stage ``opd``."""


@torch.no_grad()
def forward_kl(tuned: Path, base: Path, config: Path, seed: int) -> float:
    """Return KL(base ‖ tuned) per element of a chunk, in nats, where the tuned policy goes.

    Args:
        tuned: Directory of a policy that began as the base.
        base: Directory of the base.
        config: File of the tuned policy's experiment, whose env both act in.
        seed: Of the env and of the chains.
    """
    after, before = load_policy(tuned), load_policy(base)
    draws = make_generator("chain_distance", seed)
    obs = _visited(after, config, seed, draws)
    return float(chain_kl(before, Teacher(after, before), EncodedObs(obs), STD_FLOOR, draws).mean())


def _visited(
    policy: DenoisingPolicy, config: Path, seed: int, draws: torch.Generator
) -> dict[str, Tensor]:
    experiment = validate(compose(str(config), []), Experiment)
    horizons = {"obs_horizon": policy.obs_horizon, "exec_horizon": policy.exec_horizon}
    with closing(ChunkEnv(experiment.make_env(ENVS), **horizons, gamma=1.0)) as env:
        obs, seen = env.reset(seed), []
        for _ in range(DECISIONS):
            seen.append(obs)
            obs = env.step(policy.act(obs, draws)).obs
    return {name: torch.cat([each[name] for each in seen]) for name in obs}
