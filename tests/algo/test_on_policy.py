"""A rollback of on-policy learning takes the critic back with the actor."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from small_policies import make_policy

from robo_rl.algo.nft.nft import Nft
from robo_rl.algo.on_policy import OnPolicy
from robo_rl.algo.ppo.ppo import Ppo
from robo_rl.data.rollout import Rollout, RolloutBuilder
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.pytree import flatten

ROWS = 64
FIELDS = {"minibatch": 32, "critic": {"hidden": [16]}, "epochs": 1, "critic_epochs": 1}


def learner(algo: Any, generator: torch.Generator, warmup: int) -> OnPolicy:
    fields = {"name": "flow_ode"} if algo is Nft else {"name": "flow_noise"}
    policy = make_policy("flow_noise", 4, sampler=fields).float()
    cfg: Any = algo.Config.model_validate({**FIELDS, "warmup_updates": warmup})
    return algo(cfg, policy, ROWS, generator)


def rollout(policy: DenoisingPolicy, generator: torch.Generator, seed: int) -> Rollout:
    """One decision of every env, the reward of which is large and random."""
    draws = torch.Generator().manual_seed(seed)
    obs = {
        name: torch.randn(ROWS, policy.obs_horizon, *item.shape, generator=draws)
        for name, item in policy.obs_spec.items.items()
    }
    with torch.no_grad():
        chain = policy.sample(obs, generator)
    yes = torch.ones(ROWS, dtype=torch.bool)
    columns = {
        "x": chain.x,
        "log_prob": chain.log_prob[:, :, : policy.exec_horizon].sum(dim=(2, 3)),
        "rew": 10.0 * torch.randn(ROWS, generator=draws),
        "terminated": yes,
        "truncated": ~yes,
        "valid": yes,
        "discount": torch.full((ROWS,), 0.99),
        "num_exec": torch.full((ROWS,), policy.exec_horizon),
    }
    builder = RolloutBuilder()
    builder.add(obs, obs, columns)
    return builder.finish(obs)


def tensors(algo: OnPolicy) -> dict[str, torch.Tensor]:
    """All numbers that a rollback restores, but for the learning rate."""
    parts, rest = flatten(algo.states_of(("advantage_estimator",)))
    weights = {f"policy/{name}": x for name, x in algo.policy.state_dict().items()}
    scale = rest["advantage_estimator"]["scale"]
    plain = {name: torch.tensor(scale[name]) for name in ("count", "mean", "sq_dev")}
    return copy.deepcopy({**parts, **weights, **plain})


@pytest.mark.parametrize("algo", [Ppo, Nft])
def test_a_rollback_restores_critic_optimiser_and_scale_to_the_bit(algo, generator):
    made = learner(algo, generator, 0)
    made.update(rollout(made.policy, generator, 0))
    state, before = copy.deepcopy(made.actor_state()), tensors(made)
    made.update(rollout(made.policy, generator, 1))
    moved = {name for name, x in tensors(made).items() if not torch.equal(x, before[name])}
    assert {name.split("/")[1] for name in moved if "estimator" in name} >= {"critic", "optimizer"}
    assert "mean" in moved
    made.rollback(state)
    after = tensors(made)
    assert before.keys() == after.keys()
    assert all(torch.equal(x, after[name]) for name, x in before.items())


def test_a_rollback_to_an_untrained_critic_repeats_its_warm_up(generator):
    ppo = learner(Ppo, generator, 2)
    fresh = copy.deepcopy(ppo.actor_state())
    for update in range(3):
        ppo.update(rollout(ppo.policy, generator, update))
    ppo.rollback(fresh)
    first = copy.deepcopy(ppo.policy.state_dict())
    same = []
    for update in range(3):
        ppo.update(rollout(ppo.policy, generator, update))
        now = ppo.policy.state_dict()
        same.append(all(torch.equal(x, now[name]) for name, x in first.items()))
    assert same == [True, True, False]
    assert ppo.updates == 6
