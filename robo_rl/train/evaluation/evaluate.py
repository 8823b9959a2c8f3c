"""Evaluation under a fixed protocol, with the protocol's hash in every number.

Shapes: N episodes, B envs, To history, H horizon, A act_dim.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.api.env import TASK, VecEnv, task_names
from robo_rl.config.models import ConfigModel, digest
from robo_rl.core.seeding import derive, make_generator
from robo_rl.env.chunk_env import ChunkEnv
from robo_rl.stats.intervals import Interval, wilson
from robo_rl.stats.reported import reported_mean, reported_rate

Act = Callable[[dict[str, Tensor], torch.Generator], Tensor]
"""(observations name → (B, To, …), generator of the chain's noise) → action chunk (B, H, A)."""

Measure = Literal["success", "return"]
"""The measure that gates compare; ``return`` is for envs that define no success."""

RETURN = "reward"
"""Unit of measured and estimated returns."""

_MAX_EPISODES = 1_000_000
_TRIES = 2
"""How often a wave is run again after the death of a process."""


class EvalProtocol(ConfigModel):
    """Number of episodes, seed, number of envs, and measure.

    Each of the ``episodes`` starts from a state that depends only on the protocol and its index, so
    two policies under one protocol have the same start states. More episodes keep those of whole
    waves of ``num_envs``. ``num_envs`` is part of the protocol
    because start states are drawn env by env. ``measure`` selects what gates compare. It does not
    change the episodes and is not part of the hash.
    """

    episodes: int = Field(default=200, ge=1, le=_MAX_EPISODES)
    """Number of episodes."""
    seed: int = Field(default=0, ge=0)
    """Seed of the start states."""
    num_envs: int = Field(default=100, ge=1)
    """Envs that are stepped at once."""
    measure: Measure = "success"
    """Measure that gates compare: ``success`` or ``return``."""


class EvalResult(NamedTuple):
    """Result of an evaluation.

    Args:
        success: (N,) bool, whether the episode succeeded at any step.
        returns: (N,) sums of rewards.
        lengths: (N,) int64, env steps.
        protocol: Hash of all that defines the evaluation.
        measure: Measure that gates compare.
        lost: (N,) bool, whether the episode ended with the loss of its world (see ``ChunkStep``);
            None without any. Such episodes count with their state at that time; ``comparison``
            takes the worst and the best outcome. Episodes of a dead process are run again first.
        tasks: (N,) int64, the task of each episode; None in an env of one task.
        task_names: Names of the tasks.
    """

    success: Tensor
    returns: Tensor
    lengths: Tensor
    protocol: str
    measure: Measure = "success"
    lost: Tensor | None = None
    tasks: Tensor | None = None
    task_names: tuple[str, ...] = ()

    def by_task(self) -> dict[str, EvalResult]:
        """Return the result of each task that has episodes; empty in an env of one task."""
        if self.tasks is None:
            return {}
        rows = {name: self.tasks == i for i, name in enumerate(self.task_names)}
        return {name: self._rows(mask) for name, mask in rows.items() if bool(mask.any())}

    def _rows(self, mask: Tensor) -> EvalResult:
        columns = self.success[mask], self.returns[mask], self.lengths[mask]
        lost = None if self.lost is None else self.lost[mask]
        return EvalResult(*columns, self.protocol, self.measure, lost)

    @property
    def num_lost(self) -> int:
        """Number of episodes that ended with the loss of their world."""
        return 0 if self.lost is None else int(self.lost.sum())

    @property
    def rate(self) -> float:
        """The success rate."""
        return float(self.success.double().mean())

    @property
    def interval(self) -> Interval:
        """Wilson's 95 % interval of the success rate."""
        return wilson(int(self.success.sum()), len(self.success))

    @property
    def mean_return(self) -> float:
        """Mean over the episodes of the sum of rewards."""
        return float(self.returns.double().mean())

    def numbers(self) -> dict[str, Any]:
        """Return the success rate in the format of reports."""
        return reported_rate(int(self.success.sum()), len(self.success)) | self._origin()

    def return_numbers(self) -> dict[str, Any]:
        """Return the mean return in the format of reports."""
        return reported_mean(self.returns.double().numpy(), RETURN) | self._origin()

    def report_numbers(self, pattern: str = "{}") -> dict[str, dict[str, Any]]:
        """Return ``return`` for a report, and ``success`` if that is the measure.

        In an env of several tasks the success of each is ``success/<task>``.

        Args:
            pattern: Format of the two names, for example ``{}_before``.
        """
        found = {"success": self.numbers()} if self.measure == "success" else {}
        found["return"] = self.return_numbers()
        named = {pattern.format(name): number for name, number in found.items()}
        if self.measure == "success":
            whole = pattern.format("success")
            named |= {f"{whole}/{name}": part.numbers() for name, part in self.by_task().items()}
        return named

    def _origin(self) -> dict[str, Any]:
        """Return the protocol, and the number of lost worlds if there are any."""
        return {"protocol": self.protocol, **({"lost": self.num_lost} if self.num_lost else {})}


def protocol_digest(
    protocol: EvalProtocol,
    env: dict[str, Any],
    exec_horizon: int,
    world: Mapping[str, str] | None = None,
) -> str:
    """Return the hash of all that defines an evaluation.

    Args:
        protocol: Seeds and episodes.
        env: Settings of task and env, see ``effective_settings``.
        exec_horizon: Number of executed actions per chunk.
        world: Parts of the world, see ``world_digest``; without them the hash does not cover it.
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

    After the death of a process the wave runs again, for the episodes of that process.

    Args:
        act: The policy under its evaluation sampler.
        make_env: num_envs → env.
        protocol: Episodes and seeds.
        obs_horizon: To.
        exec_horizon: Actions executed of each chunk.
        protocol_hash: From ``protocol_digest``.
        progress: Called with the number of finished episodes.
    """
    waves, names = list[_Wave](), tuple[str, ...]()
    full, rest = divmod(protocol.episodes, protocol.num_envs)
    done = 0
    for num_envs, number in ((protocol.num_envs, full), (rest, min(rest, 1))):
        if not number:
            continue
        env = ChunkEnv(
            make_env(num_envs), obs_horizon=obs_horizon, exec_horizon=exec_horizon, gamma=1.0
        )
        names = task_names(env.env)
        with closing(env):
            for _ in range(number):
                wave = len(waves)
                noise = make_generator("eval-noise", protocol.seed, wave, device=env.device)
                waves.append(_whole_wave(act, env, derive("eval", protocol.seed, wave), noise))
                done += num_envs
                progress(done)
    success, returns, lengths, lost, _, task = (
        torch.cat(column) for column in zip(*waves, strict=True)
    )
    return EvalResult(
        success,
        returns,
        lengths,
        protocol_hash,
        measure=protocol.measure,
        lost=lost if bool(lost.any()) else None,
        tasks=task if names else None,
        task_names=names,
    )


class _Wave(NamedTuple):
    """(B,) each; ``lost`` marks a lost world, ``died`` a dead process; ``task`` is an index."""

    success: Tensor
    returns: Tensor
    lengths: Tensor
    lost: Tensor
    died: Tensor
    task: Tensor


def _whole_wave(act: Act, env: ChunkEnv, seed: int, generator: torch.Generator) -> _Wave:
    """Run a wave, and run it again for the episodes of dead processes."""
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
    """Run one episode in every env; what finished envs do until all have ended is not counted."""
    obs = env.reset(seed)
    running = torch.ones(env.num_envs, dtype=torch.bool, device=env.device)
    success = torch.zeros_like(running)
    returns = torch.zeros(env.num_envs, device=env.device)
    lengths = torch.zeros(env.num_envs, dtype=torch.int64, device=env.device)
    lost, died = torch.zeros_like(running), torch.zeros_like(running)
    task = torch.full_like(lengths, -1)
    while bool(running.any()):
        step = env.step(act(obs, generator))
        success |= running & step.success
        returns += torch.where(running, step.rew_sum, 0.0)
        lengths += torch.where(running, step.num_exec, 0)
        lost |= running & step.lost
        died |= running & (step.metrics.get("worker_restarts", returns * 0.0) > 0)
        if TASK in step.metrics:
            task = torch.where(task < 0, step.metrics[TASK].long(), task)
        running &= ~(step.terminated | step.truncated)
        env.rest(~running)
        obs = step.obs
    return _Wave(*(each.cpu() for each in (success, returns, lengths, lost, died, task)))
