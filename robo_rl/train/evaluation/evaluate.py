"""Evaluation under a fixed protocol whose hash stands beside every number.

Shapes: N episodes, B envs, To history, H horizon, A act_dim.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from robo_rl.api.env import VecEnv
from robo_rl.config.models import ConfigModel, digest
from robo_rl.core.seeding import derive, make_generator
from robo_rl.env.chunk_env import ChunkEnv
from robo_rl.stats.across_runs import stratified_bootstrap
from robo_rl.stats.intervals import Interval, wilson
from robo_rl.stats.paired_tests import Comparison, paired_change, paired_noninferiority

Act = Callable[[dict[str, Tensor], torch.Generator], Tensor]
"""(observations name → (B, To, …), source of the chain's noise) → action chunk (B, H, A)."""

Measure = Literal["success", "return"]
"""What an experiment is judged by; ``return`` is for envs that define no success."""

RETURN = "reward"
"""The unit of returns, measured ones and estimates alike."""

_TRIES = 2
"""How often a wave is run again in which a process died."""


class EvalProtocol(ConfigModel):
    """How many episodes, from which seeds, how many at once, and what is judged of them.

    Each of the ``episodes`` starts from a state that depends on ``seed`` and its index alone, so
    two policies under one protocol meet the same starts. ``num_envs`` run at once; it is part of
    the protocol because start states are drawn env by env. ``measure`` is what gates compare; the
    episodes are the same whichever it is, so it is no part of the hash.
    """

    episodes: int = Field(default=200, ge=1)
    """Number of episodes."""
    seed: int = Field(default=0, ge=0)
    """Seed of the start states."""
    num_envs: int = Field(default=100, ge=1)
    """Envs that are stepped at once."""
    measure: Measure = "success"
    """What gates compare."""


class EvalResult(NamedTuple):
    """What was measured.

    Args:
        success: (N,) bool, whether the episode succeeded at any step.
        returns: (N,) sums of rewards.
        lengths: (N,) int64, env steps.
        protocol: Hash of all that fixes the evaluation.
        measure: What gates compare.
        lost: How many episodes ended because their world was lost (see ``ChunkStep``), and count as
            they stood then; those whose process died have been run again before.
    """

    success: Tensor
    returns: Tensor
    lengths: Tensor
    protocol: str
    measure: Measure = "success"
    lost: int = 0

    @property
    def rate(self) -> float:
        """Share of successes."""
        return float(self.success.double().mean())

    @property
    def interval(self) -> Interval:
        """Wilson's 95 % interval of the success rate."""
        return wilson(int(self.success.sum()), len(self.success))

    @property
    def mean_return(self) -> float:
        """Mean over the episodes of the sum of rewards."""
        return float(self.returns.double().mean())

    @property
    def return_interval(self) -> Interval:
        """Bootstrap 95 % interval of the mean return."""
        return stratified_bootstrap(self.returns.double().numpy(), lambda x: float(np.mean(x)))

    def numbers(self) -> dict[str, Any]:
        """The success rate as reports keep it."""
        return self._number(self.rate, self.interval, "1")

    def return_numbers(self) -> dict[str, Any]:
        """The mean return, likewise."""
        return self._number(self.mean_return, self.return_interval, RETURN)

    def report_numbers(self, pattern: str = "{}") -> dict[str, dict[str, Any]]:
        """All of it for a report: ``return``, and ``success`` where that is what is judged.

        Args:
            pattern: What to make of the two names, for example ``{}_before``.
        """
        found = {"success": self.numbers()} if self.measure == "success" else {}
        found["return"] = self.return_numbers()
        return {pattern.format(name): number for name, number in found.items()}

    def _number(self, value: float, interval: Interval, unit: str) -> dict[str, Any]:
        ends = {"low": interval.low, "high": interval.high}
        rest = {"n": len(self.success), "unit": unit, "protocol": self.protocol}
        rest |= {"lost": self.lost} if self.lost else {}
        return {"value": value, **ends, **rest}


def compare(new: EvalResult, ref: EvalResult, margin: float) -> Comparison:
    """Test whether new is not worse than ref by more than a margin, both on the same starts.

    Args:
        new: Of the policy that is to pass.
        ref: Of its reference, under the same protocol.
        margin: Share of episodes where success is judged; share of the reference's mean return
            where returns are.
    """
    if new.measure == "success":
        return paired_noninferiority(new.success.numpy(), ref.success.numpy(), margin)
    return paired_change(new.returns.numpy(), ref.returns.numpy(), margin)


def format_comparison(test: Comparison, measure: Measure) -> str:
    """A comparison in one clause, for gates."""
    low, high = test.interval
    of = "" if measure == "success" else " of the mean return"
    interval = f"[{low:+.1%}, {high:+.1%}]"
    return f"difference {test.difference:+.1%} {interval}{of}, margin −{test.margin:.1%}"


def protocol_digest(
    protocol: EvalProtocol,
    env: dict[str, Any],
    exec_horizon: int,
    world: Mapping[str, str] | None = None,
) -> str:
    """Hash of all that fixes an evaluation.

    Args:
        protocol: Seeds and episodes.
        env: Settings of task and env.
        exec_horizon: After how many actions the policy is asked anew.
        world: Its parts, see ``world_digest``; a hash without them does not cover the world.
    """
    fixed = {"eval": protocol.model_dump(exclude={"measure"}), "env": env}
    rest = {"world": dict(world)} if world else {}
    return digest({**fixed, "exec_horizon": exec_horizon, **rest})


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

    Where a process died, its envs' episodes are taken from the same wave, run again.

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
        generator = make_generator("eval-noise", protocol.seed, wave, device=env.device)
        try:
            waves.append(_whole_wave(act, env, derive("eval", protocol.seed, wave), generator))
        finally:
            env.close()
        done += num_envs
        progress(done)
    success, returns, lengths, lost, _ = (torch.cat(column) for column in zip(*waves, strict=True))
    measure, number = protocol.measure, int(lost.sum())
    return EvalResult(success, returns, lengths, protocol_hash, measure=measure, lost=number)


class _Wave(NamedTuple):
    """(B,) each; ``lost`` with the world, ``died`` with the process that ran it."""

    success: Tensor
    returns: Tensor
    lengths: Tensor
    lost: Tensor
    died: Tensor


def _whole_wave(act: Act, env: ChunkEnv, seed: int, generator: torch.Generator) -> _Wave:
    """A wave in which no episode is missing that a process took along, or hardly ever one."""
    noise = generator.get_state()
    wave = _run_wave(act, env, seed, generator)
    for _ in range(_TRIES):
        if not wave.died.any():
            break
        again = _run_wave(act, env, seed, generator.set_state(noise))
        wave = _Wave(
            *(torch.where(wave.died, new, old) for new, old in zip(again, wave, strict=True))
        )
    return wave


@torch.no_grad()
def _run_wave(act: Act, env: ChunkEnv, seed: int, generator: torch.Generator) -> _Wave:
    """One episode in every env; an env that has ended goes on, uncounted, until all have."""
    obs = env.reset(seed)
    running = torch.ones(env.num_envs, dtype=torch.bool, device=env.device)
    success = torch.zeros_like(running)
    returns = torch.zeros(env.num_envs, device=env.device)
    lengths = torch.zeros(env.num_envs, dtype=torch.int64, device=env.device)
    lost, died = torch.zeros_like(running), torch.zeros_like(running)
    while bool(running.any()):
        step = env.step(act(obs, generator))
        success |= running & step.success
        returns += torch.where(running, step.rew_sum, 0.0)
        lengths += torch.where(running, step.num_exec, 0)
        lost |= running & step.lost
        died |= running & (step.metrics.get("worker_restarts", returns * 0.0) > 0)
        running &= ~(step.terminated | step.truncated)
        obs = step.obs
    return _Wave(*(each.cpu() for each in (success, returns, lengths, lost, died)))
