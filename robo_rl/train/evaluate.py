"""Evaluation under a fixed protocol whose hash stands beside every number.

Shapes: N episodes, B envs, To history, H horizon, A act_dim.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.config import ConfigModel, digest
from robo_rl.env.base import VecEnv
from robo_rl.env.chunk import ChunkEnv
from robo_rl.seeding import derive, make_generator
from robo_rl.stats import Interval, wilson

Act = Callable[[dict[str, Tensor], torch.Generator], Tensor]
"""(observations name → (B, To, …), source of the chain's noise) → action chunk (B, H, A)."""


class EvalProtocol(ConfigModel):
    """How many episodes, from which seeds, how many at once.

    Each of the ``episodes`` starts from a state that depends on ``seed`` and its index alone, so
    two policies under one protocol meet the same starts. ``num_envs`` run at once; it is part of
    the protocol because start states are drawn env by env.
    """

    episodes: int = Field(default=200, ge=1)
    seed: int = 0
    num_envs: int = Field(default=100, ge=1)


class EvalResult(NamedTuple):
    """What was measured.

    Args:
        success: (N,) bool, whether the episode succeeded at any step.
        returns: (N,) sums of rewards.
        lengths: (N,) int64, env steps.
        protocol: Hash of all that fixes the evaluation.
    """

    success: Tensor
    returns: Tensor
    lengths: Tensor
    protocol: str

    @property
    def rate(self) -> float:
        """Share of successes."""
        return float(self.success.double().mean())

    @property
    def interval(self) -> Interval:
        """Wilson's 95 % interval of the success rate."""
        return wilson(int(self.success.sum()), len(self.success))

    def numbers(self) -> dict[str, Any]:
        """The success rate as reports keep it."""
        low, high = self.interval
        return {
            "value": self.rate,
            "low": low,
            "high": high,
            "n": len(self.success),
            "unit": "1",
            "protocol": self.protocol,
        }


def protocol_digest(protocol: EvalProtocol, env: dict[str, Any], exec_horizon: int) -> str:
    """Hash of seeds, episodes, env with its horizon, and how often the policy is asked anew."""
    return digest({"eval": protocol.model_dump(), "env": env, "exec_horizon": exec_horizon})


def evaluate(
    act: Act,
    make_env: Callable[[int], VecEnv],
    protocol: EvalProtocol,
    *,
    obs_horizon: int,
    exec_horizon: int,
    protocol_hash: str,
    progress: Callable[[int], None] = lambda done: None,
) -> EvalResult:
    """Run the first episode of every env, wave by wave, until N have ended.

    Args:
        act: The policy under its evaluation sampler.
        make_env: num_envs → env.
        protocol: Episodes and seeds.
        obs_horizon: To.
        exec_horizon: Actions executed of each chunk.
        protocol_hash: From ``protocol_digest``.
        progress: Told the number of episodes that have ended.
    """
    waves: list[_Wave] = []
    done = 0
    while done < protocol.episodes:
        wave = len(waves)
        num_envs = min(protocol.num_envs, protocol.episodes - done)
        env = ChunkEnv(
            make_env(num_envs), obs_horizon=obs_horizon, exec_horizon=exec_horizon, gamma=1.0
        )
        generator = make_generator("eval-noise", protocol.seed, wave)
        try:
            waves.append(_run_wave(act, env, derive("eval", protocol.seed, wave), generator))
        finally:
            env.close()
        done += num_envs
        progress(done)
    columns = [torch.cat(column) for column in zip(*waves, strict=True)]
    return EvalResult(*columns, protocol=protocol_hash)


class _Wave(NamedTuple):
    success: Tensor
    returns: Tensor
    lengths: Tensor


@torch.no_grad()
def _run_wave(act: Act, env: ChunkEnv, seed: int, generator: torch.Generator) -> _Wave:
    """One episode in every env; an env that has ended goes on, uncounted, until all have."""
    obs = env.reset(seed)
    running = torch.ones(env.num_envs, dtype=torch.bool)
    success = torch.zeros_like(running)
    returns = torch.zeros(env.num_envs)
    lengths = torch.zeros(env.num_envs, dtype=torch.int64)
    while bool(running.any()):
        step = env.step(act(obs, generator))
        success |= running & (step.metrics["success"] > 0)
        returns += torch.where(running, step.rew, 0.0)
        lengths += torch.where(running, step.num_exec, 0)
        running &= ~(step.terminated | step.truncated)
        obs = step.obs
    return _Wave(success, returns, lengths)
