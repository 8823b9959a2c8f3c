"""Reuse of earlier rollouts: they weigh as the acting policy's own, and resume to the bit."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from small_bandit import ROWS, one_decision
from small_policies import make_policy

from robo_rl.algo.ppo.actor_batch import ActorBatch
from robo_rl.algo.ppo.ppo import Ppo
from robo_rl.algo.ppo.ratio_units import RatioMode
from robo_rl.algo.ppo.rollout_reuse import RolloutReuse, log_ratio_of_decisions
from robo_rl.data.rollout import Rollout

SETTINGS: dict[str, Any] = {"lr": 1e-3, "minibatch": 256, "warmup_updates": 0, "target_kl": 0.3}
MODES = [
    ("gaussian", RatioMode.JOINT),
    ("flow_noise", RatioMode.JOINT),
    ("ddpm", RatioMode.PER_STEP),
    ("flow_sde", RatioMode.SINGLE_STEP),
]


def make_ppo(generator: torch.Generator, reused: int = 2, **fields: Any) -> Ppo:
    cfg = Ppo.Config.model_validate({**SETTINGS, **fields, "reused_rollouts": reused})
    return Ppo(cfg, make_policy("flow_noise", 4).float(), ROWS, generator)


def moved(policy: Any, size: float = 0.02) -> Any:
    """The policy with other weights."""
    other, generator = copy.deepcopy(policy), torch.Generator().manual_seed(7)
    with torch.no_grad():
        for weights in other.net.parameters():
            weights += size * torch.randn(weights.shape, generator=generator)
    return other


@pytest.mark.parametrize(("sampler", "mode"), MODES)
def test_the_collector_has_ratio_one_and_another_policy_one_on_average(sampler, mode, generator):
    policy = make_policy(sampler, 4).float()
    rollout = one_decision(policy, generator, mode, rows=16384)
    own = log_ratio_of_decisions(rollout, policy, mode)
    torch.testing.assert_close(own, torch.zeros_like(own), rtol=0.0, atol=2e-3)
    ratio = log_ratio_of_decisions(rollout, moved(policy), mode).exp()
    assert ratio.std() > 0.02
    # E[ratio] = 1 under the collector; 4 standard errors pass in 999 of 1000.
    assert abs(ratio.mean() - 1.0) < 4.0 * ratio.std() / len(ratio) ** 0.5


def test_earlier_rewards_count_as_those_of_the_acting_policy(generator):
    policy = make_policy("gaussian", 1).float()
    acting = copy.deepcopy(policy)
    with torch.no_grad():
        acting.net.out.bias += 0.03
    earlier = one_decision(policy, generator, RatioMode.JOINT, rows=16384)
    fresh = one_decision(acting, generator, RatioMode.JOINT, rows=16384)
    weight = log_ratio_of_decisions(earlier, acting, RatioMode.JOINT).exp()
    weighted, own = weight * earlier.rew[0], fresh.rew[0]
    error = ((weighted.var() + own.var()) / len(own)).sqrt()
    assert abs(weighted.mean() - own.mean()) < 4.0 * error
    assert abs(earlier.rew.mean() - own.mean()) > 8.0 * error


def test_the_latest_rollouts_are_joined(generator):
    policy, reuse = make_policy("flow_noise", 4).float(), RolloutReuse(2, RatioMode.JOINT)
    made = [one_decision(policy, generator, RatioMode.JOINT, seed=i, rows=8) for i in range(4)]
    joined = [reuse.join(each, policy) for each in made]
    assert joined[0] is made[0]
    assert [each.rew.shape[1] for each in joined] == [8, 16, 24, 24]
    assert torch.equal(joined[3].rew, torch.cat([made[i].rew for i in (3, 2, 1)], dim=1))
    assert torch.equal(joined[3].x, torch.cat([made[i].x for i in (3, 2, 1)], dim=1))
    seen = torch.cat([made[i].final_obs["pos"] for i in (3, 2, 1)])
    assert torch.equal(joined[3].final_obs["pos"], seen)
    assert joined[3].ended.tolist() == [[0, env] for env in range(24)]


def test_a_decision_that_is_not_valid_takes_no_part(generator):
    policy, reuse = make_policy("flow_noise", 4).float(), RolloutReuse(1, RatioMode.JOINT)
    first, second = (
        one_decision(policy, generator, RatioMode.JOINT, seed=i, rows=8) for i in range(2)
    )
    valid = torch.arange(8)[None] != 3
    reuse.join(replace(first, valid=valid), policy)
    joined = reuse.join(second, moved(policy))
    batch = ActorBatch.of(joined, joined.rows(joined.rew))
    assert len(batch.adv) == 15
    assert joined.policy_log_ratio is not None
    assert joined.policy_log_ratio[0, 8 + 3] == 0.0


def test_a_resumed_run_has_the_rollouts_of_the_one_that_went_on():
    def ran(updates: int, ppo: Ppo, generator: torch.Generator, begin: int = 0) -> Ppo:
        for number in range(begin, updates):
            ppo.update(one_decision(ppo.policy, generator, RatioMode.JOINT, seed=number))
        return ppo

    first = torch.Generator().manual_seed(0)
    whole = ran(3, make_ppo(first), first)
    state = copy.deepcopy(whole.state_dict())
    second = torch.Generator()
    resumed = make_ppo(second)
    resumed.load_state_dict(state)
    second.set_state(first.get_state())
    ran(5, whole, first, begin=3)
    ran(5, resumed, second, begin=3)
    both = zip(whole.policy.parameters(), resumed.policy.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in both)


def test_a_rollback_forgets_earlier_rollouts(generator):
    ppo = make_ppo(generator)
    rollout: Rollout = one_decision(ppo.policy, generator, RatioMode.JOINT)
    ppo.update(rollout)
    assert ppo.reuse is not None
    assert ppo.reuse.earlier == [rollout]
    ppo.rollback(copy.deepcopy(ppo.actor_state()))
    assert ppo.reuse.earlier == []


@pytest.mark.parametrize(
    "fields",
    [
        {"ratio": "cfm"},
        {"ratio": "noise_conditioned"},
        {"proximal_ema": 0.5},
        {"advantage": "monte_carlo"},
        {"group_size": 4},
    ],
)
def test_options_without_a_correction_are_refused(fields):
    with pytest.raises(ValidationError, match="no correction for old chains"):
        Ppo.Config.model_validate({"reused_rollouts": 1, **fields})
