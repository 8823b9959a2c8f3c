"""What policies would come to in a learnt world, where their worth is arithmetic."""

from __future__ import annotations

import math

import pytest
import torch
from small_logged import Always, small_policy
from small_policies import ACT, OBS
from torch import Tensor

from robo_rl.ope.resample import Resample
from robo_rl.ope.rollouts import rollout_estimate
from robo_rl.world.dynamics import DynamicsEnsemble, DynamicsPrediction

GAMMA, M, E = 0.9, 4, 2


class Line(DynamicsEnsemble):
    """A chunk with a positive first action leads from place 0 to 1; there it pays and ends."""

    def __init__(self) -> None:
        rows = 8
        columns = {
            f"obs.{name}": torch.randn(rows, 1, *spec.shape) for name, spec in OBS.items.items()
        }
        rest: dict[str, Tensor] = {
            "act": torch.rand(rows, 3, ACT.size) * 2 - 1,
            "rew": torch.zeros(rows),
            "terminated": torch.zeros(rows, dtype=torch.bool),
            "num_exec": torch.full((rows,), E),
            "next": torch.arange(rows),
            "decision": torch.ones(rows, dtype=torch.bool),
        }
        super().__init__(DynamicsEnsemble.Config(hidden=(4,)), {**columns, **rest}, E, M)

    def forward(self, seen: Tensor, act: Tensor) -> DynamicsPrediction:
        on, there = act[..., 0, 0] > 0.0, seen[..., 0] > 0.5
        change = torch.zeros_like(seen)
        change[..., 0] = on.float()
        ends = torch.where(on & there, math.inf, -math.inf)
        return DynamicsPrediction(change, (on & there).float(), ends)

    def next_obs(self, seen: Tensor, ahead: DynamicsPrediction) -> Tensor:
        return seen + ahead.delta


def worth(value: float, limit: int, episodes: int = 6) -> Tensor:
    """From place 0, of a policy that always says so."""
    resample = Resample(torch.arange(episodes), M, torch.Generator().manual_seed(0))
    size = sum(spec.shape[0] for spec in OBS.items.values())
    return rollout_estimate(
        Line(),
        Always(small_policy(), value),  # pyright: ignore
        torch.zeros(episodes, size),
        resample,
        limit=limit,
        gamma=GAMMA,
        generator=torch.Generator(),
    ).members


def test_the_reward_is_discounted_by_the_env_steps_before_its_chunk_and_paid_once():
    torch.testing.assert_close(worth(0.5, limit=20), torch.full((M,), GAMMA**E))


def test_a_policy_that_does_not_go_on_comes_to_nothing():
    assert torch.equal(worth(-0.5, limit=20), torch.zeros(M))


@pytest.mark.parametrize(("limit", "share"), [(2, 0.0), (3, 0.5), (4, 1.0)])
def test_what_lies_behind_the_limit_does_not_count(limit: int, share: float):
    torch.testing.assert_close(worth(0.5, limit), torch.full((M,), share * GAMMA**E))
