"""What an online algorithm is where it says nothing more of itself."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest
import torch
from small_policies import make_policy

from robo_rl.algo.base import Algorithm
from robo_rl.core.errors import ConfigError
from robo_rl.data.rollout import Rollout


class Counting(Algorithm):
    """Counts its rollouts, and shifts its policy by one with each."""

    state_parts = ("policy", "seen")
    actor_parts = ("policy",)

    def __init__(self) -> None:
        super().__init__(make_policy("gaussian", 1), torch.Generator())
        self.seen = 0

    @torch.no_grad()
    def update(self, rollout: Rollout) -> dict[str, float]:
        del rollout
        self.updates, self.seen = self.updates + 1, self.seen + 1
        for weight in self.policy.parameters():
            weight += 1.0
        return {}

    def rollback(self, state: Mapping[str, Any]) -> None:
        self.load_states_of(self.actor_parts, state)


def weights(algo: Algorithm) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in algo.policy.parameters()])


def test_a_rollback_restores_the_actor_and_nothing_else():
    algo = Counting()
    rollout: Any = None
    state, before = deepcopy(algo.actor_state()), weights(algo).clone()
    algo.update(rollout)
    algo.rollback(state)
    assert torch.equal(weights(algo), before)
    assert (algo.updates, algo.seen) == (1, 1)


def test_it_continues_from_its_state():
    one, two = Counting(), Counting()
    rollout: Any = None
    one.update(rollout)
    two.load_state_dict(one.state_dict())
    assert torch.equal(weights(one), weights(two))
    assert (two.updates, two.seen) == (1, 1)


def test_by_default_it_asks_for_nothing_and_refuses_critics():
    algo = Counting()
    assert algo.eval_policy() is algo.policy
    assert (algo.group_size, algo.needs_demonstrations, algo.needs_critics) == (1, (), False)
    Counting.check_policy(None, algo.policy)
    with pytest.raises(ConfigError, match="'Counting' takes no critics"):
        algo.warm_start_critics({})


def test_one_without_an_update_is_none():
    with pytest.raises(TypeError, match="abstract"):
        Algorithm(make_policy("gaussian", 1), torch.Generator())  # type: ignore[abstract]
