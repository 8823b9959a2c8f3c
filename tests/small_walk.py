"""A walk along a line in three decisions, logged at random, in which a policy's worth is known.

A decision moves a place, which begins at 0, by half its first action's first element, and pays the
place that it leads to. Logged ones draw that element from −1 to 1, the policy from 0.2 to 0.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from small_logged import Always, small_policy
from small_policies import ACT, OBS
from torch import Tensor

from robo_rl.core.seeding import make_generator
from robo_rl.critic.q import QCritic
from robo_rl.data.replay import Replay
from robo_rl.ope.fqe import Fqe
from robo_rl.ope.resample import Resample
from robo_rl.ope.time_aware import ELAPSED, add_time_feature
from robo_rl.world.dynamics import DynamicsEnsemble, DynamicsPrediction

M, HORIZON, DECISIONS = 6, 3, 3
LIMIT = DECISIONS + 1
WORTH = 0.25 + 0.5 + 0.75
"""Of the policy: its mean action is 0.5."""


class Leaning(Always):
    """The policy."""

    def act(self, obs: dict[str, Tensor], generator: torch.Generator) -> Tensor:
        rows = len(next(iter(obs.values())))
        act = 2.0 * torch.rand(rows, HORIZON, ACT.size, generator=generator) - 1.0
        act[:, 0, 0] = 0.5 + 0.3 * act[:, 0, 0]
        return self.like.to_env(obs, act)


class Walk(DynamicsEnsemble):
    """The world, known."""

    def __init__(self, rows: Mapping[str, Tensor]) -> None:
        super().__init__(DynamicsEnsemble.Config(hidden=(4,)), rows, 1, M)

    def forward(self, seen: Tensor, act: Tensor) -> DynamicsPrediction:
        change = torch.zeros_like(seen)
        change[..., 0] = 0.5 * act[..., 0, 0]
        after = seen[..., 0] + change[..., 0]
        return DynamicsPrediction(change, after, torch.full_like(after, -torch.inf))

    def next_obs(self, seen: Tensor, ahead: DynamicsPrediction) -> Tensor:
        return seen + ahead.delta


class Right(torch.nn.Module):
    """The policy's action values; it goes 0.25 ahead in each decision that is left."""

    def forward(self, obs: dict[str, Tensor], act: Tensor) -> Tensor:
        left = DECISIONS - 1 - LIMIT * obs[ELAPSED][:, 0, 0]
        value = (left + 1.0) * after(obs, act) + 0.125 * left * (left + 1.0)
        return value.expand(M, -1)


class Wrong(torch.nn.Module):
    """Values for which nothing speaks."""

    def forward(self, obs: dict[str, Tensor], act: Tensor) -> Tensor:
        return (3.0 - 2.0 * after(obs, act)).expand(M, -1)


def after(obs: dict[str, Tensor], act: Tensor) -> Tensor:
    """Where chunks lead."""
    return obs["pos"][:, 0, 0] + 0.5 * act[:, 0, 0]


@dataclass
class WalkCase:
    """The policy before a judge who knows the world."""

    policy: Any
    replay: Replay
    rows: dict[str, Tensor]
    resample: Resample
    limit: int
    seed: int
    values: Fqe
    dynamics: DynamicsEnsemble

    def fit(self, what: str, learner: Any, steps: int, generator: torch.Generator) -> None:
        del what, generator
        with torch.enable_grad():
            for _ in range(steps):
                learner.step()


def walk_case(values: torch.nn.Module, episodes: int = 600, seed: int = 0) -> WalkCase:
    """Of such action values."""
    torch.manual_seed(seed)
    rows, elapsed = logged_walk(episodes, make_generator("walk", seed))
    replay = Replay(Replay.Config(demo_fraction=1.0))
    replay.add_demonstrations(add_time_feature(rows, elapsed, LIMIT))
    last = torch.arange(len(elapsed)) // LIMIT * LIMIT + DECISIONS
    resample = Resample(last, M, make_generator("resample", seed))
    policy: Any = Leaning(small_policy(), 0.5)
    cfg = Fqe.Config(critic=QCritic.Config(members=M, hidden=(8,)))
    fqe = Fqe(cfg, policy, replay, resample, make_generator("fqe", seed))
    fqe.target.module = values  # pyright: ignore[reportAttributeAccessIssue]
    return WalkCase(policy, replay, rows, resample, LIMIT, seed, fqe, Walk(rows))


def logged_walk(episodes: int, generator: torch.Generator) -> tuple[dict[str, Tensor], Tensor]:
    """Rows, and env steps since their episodes began; behind the decisions where they led to."""
    act = 2.0 * torch.rand(episodes, LIMIT, HORIZON, ACT.size, generator=generator) - 1.0
    moved = (0.5 * act[:, :, 0, 0]).cumsum(dim=1)
    pos = torch.zeros(episodes, LIMIT, 1, *OBS.items["pos"].shape)
    pos[:, 1:, 0, 0] = moved[:, :-1]
    number = episodes * LIMIT
    elapsed = torch.arange(LIMIT).repeat(episodes)
    decision = elapsed < DECISIONS
    rows = {
        "obs.pos": pos.flatten(0, 1),
        "obs.goal": torch.zeros(number, 1, *OBS.items["goal"].shape),
        "act": act.flatten(0, 1),
        "rew": moved.flatten() * decision,
        "discount": torch.ones(number),
        "terminated": torch.zeros(number, dtype=torch.bool),
        "num_exec": decision.long(),
        "next": torch.arange(number) + decision.long(),
        "decision": decision,
    }
    return rows, elapsed
