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

from robo_rl.algo.advantages.critic_advantages import GaeEstimator
from robo_rl.algo.ppo.batch.actor_batch import ActorBatch
from robo_rl.algo.ppo.objective import Objective, ObjectiveConfig
from robo_rl.algo.ppo.ppo import Ppo
from robo_rl.algo.ppo.ratio_units import RatioMode
from robo_rl.algo.ppo.rollout_reuse import RolloutReuse, effective_share, rescored
from robo_rl.core.errors import ConfigError
from robo_rl.data.rollout import Rollout
from robo_rl.train.checkpoint.series import CheckpointSeries

SETTINGS: dict[str, Any] = {"lr": 1e-3, "minibatch": 256, "warmup_updates": 0, "target_kl": 0.3}
OFFSET = {"sampler": {"name": "flow_noise", "chunk_correlation": 1.0}, "finetune_steps": 2}
SCHEDULED = {"name": "flow_noise", "std_max": {"start": 0.3, "end": 0.2}}
FAMILIES: list[tuple[str, dict[str, Any]]] = [
    ("gaussian", {}),
    ("ddpm", {}),
    ("flow_sde", {}),
    ("flow_noise", {}),
    ("flow_noise", OFFSET),
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


@pytest.mark.parametrize(("sampler", "fields"), FAMILIES)
def test_the_collector_has_ratio_one(sampler, fields, generator):
    policy = make_policy(sampler, 4, **fields).float()
    rollout = one_decision(policy, generator, RatioMode.JOINT)
    found = rescored(rollout, policy)
    assert found.policy_log_ratio is not None
    zero = torch.zeros_like(rollout.rew)
    torch.testing.assert_close(found.policy_log_ratio, zero, rtol=0.0, atol=2e-3)
    torch.testing.assert_close(found.log_prob, rollout.log_prob, rtol=0.0, atol=2e-3)


@pytest.mark.parametrize(("sampler", "fields"), FAMILIES)
def test_earlier_rewards_count_as_those_of_the_acting_policy(sampler, fields, generator):
    policy = make_policy(sampler, 4, **fields).float()
    if policy.cfg.finetune_steps:
        policy.freeze_reference()
    acting = copy.deepcopy(policy)
    with torch.no_grad():
        acting.net.out.bias += 0.08 if sampler == "ddpm" else 0.02
    earlier = one_decision(policy, generator, RatioMode.JOINT, rows=16384)
    fresh = one_decision(acting, generator, RatioMode.JOINT, rows=16384)
    weight = rescored(earlier, acting).policy_log_ratio
    assert weight is not None
    weighted, own = weight[0].exp() * earlier.rew[0], fresh.rew[0]
    error = ((weighted.var() + own.var()) / len(own)).sqrt()
    assert abs(weighted.mean() - own.mean()) < 5.0 * error
    assert abs(earlier.rew.mean() - own.mean()) > 8.0 * error


def test_the_loss_weighs_a_decision_by_its_ratio(generator):
    policy = make_policy("flow_noise", 4).float()
    rollout = rescored(one_decision(policy, generator, RatioMode.JOINT), moved(policy))
    adv, cfg = torch.randn(ROWS, generator=generator), ObjectiveConfig()
    ratio = rollout.policy_log_ratio
    assert ratio is not None
    acting = moved(policy)
    objective = Objective(cfg, acting, None, rollout, adv, generator)
    loss = objective.loss(torch.arange(ROWS)).loss
    torch.testing.assert_close(loss, -(ratio[0].exp() * adv).mean(), rtol=1e-3, atol=1e-4)


def test_advantages_are_those_of_v_trace(generator):
    ppo = make_ppo(generator)
    for seed in range(2):
        ppo.update(one_decision(ppo.policy, generator, RatioMode.JOINT, seed=seed))
    estimator = ppo.advantage_estimator
    assert isinstance(estimator, GaeEstimator)
    rollout = one_decision(ppo.policy, generator, RatioMode.JOINT)
    log_ratio = torch.randn(rollout.rew.shape, generator=generator)
    scaled = rollout.rew / estimator.scale.std
    value = estimator.critic({name: o[0] for name, o in rollout.obs.items()})
    for given, rho in ((None, torch.ones_like(scaled)), (log_ratio, log_ratio.exp().clamp(max=1))):
        _, returns = estimator._advantages(replace(rollout, policy_log_ratio=given), scaled)
        torch.testing.assert_close(returns, value + rho * (scaled - value))


@pytest.mark.parametrize(
    ("sampler", "fields", "message"),
    [
        ("flow_cps", {}, "a trained step without noise"),
        (
            "flow_noise",
            {
                "finetune_steps": 2,
                "sampler": {"name": "flow_noise", "std_max": {"start": 0.3, "end": 0.2}},
            },
            "the noise of frozen steps changes",
        ),
        (
            "flow_noise",
            {"correlation": {"start": {"start": 0.5, "end": 0.2}}},
            "the law of the first noise changes",
        ),
    ],
)
def test_a_policy_whose_change_has_no_ratio_is_refused(sampler, fields, message, generator):
    cfg = Ppo.Config.model_validate({**SETTINGS, "reused_rollouts": 1})
    with pytest.raises(ConfigError, match=message):
        Ppo(cfg, make_policy(sampler, 4, **fields).float(), ROWS, generator)


def test_equal_weights_use_all_data_and_unequal_ones_less():
    assert effective_share(torch.full((8,), 0.7)) == pytest.approx(1.0)
    assert effective_share(torch.tensor([0.0, -torch.inf])) == pytest.approx(0.5)


def test_the_share_is_that_of_the_weights_in_the_loss(generator):
    """A bound that leaves no weight but 1 leaves all data, however far the policy moved."""
    shares = []
    for bound in (1e-6, 5.0):
        ppo = make_ppo(torch.Generator().manual_seed(0), log_ratio_max=bound)
        first = one_decision(ppo.actor.policy, generator, RatioMode.JOINT, seed=1)
        assert ppo.reuse is not None
        ppo.reuse.join(first, ppo.actor.policy)
        with torch.no_grad():
            for weights in ppo.actor.policy.net.parameters():
                weights += 0.02
        later = one_decision(ppo.actor.policy, generator, RatioMode.JOINT, seed=2)
        shares.append(ppo.update(later)["effective_share"])
    assert shares[0] == pytest.approx(1.0)
    assert shares[1] < 0.99


def test_the_latest_rollouts_are_joined(generator):
    policy = make_policy("flow_noise", 4).float()
    reuse = RolloutReuse(2, policy)
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
    policy = make_policy("flow_noise", 4).float()
    reuse = RolloutReuse(1, policy)
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


def test_a_resumed_run_has_the_rollouts_of_the_one_that_went_on(tmp_path):
    def ran(updates: int, ppo: Ppo, generator: torch.Generator, begin: int = 0) -> Ppo:
        for number in range(begin, updates):
            ppo.update(one_decision(ppo.policy, generator, RatioMode.JOINT, seed=number))
        return ppo

    first = torch.Generator().manual_seed(0)
    whole = ran(3, make_ppo(first), first)
    checkpoints = CheckpointSeries(tmp_path)
    checkpoints.save(3, whole.state_dict())
    second = torch.Generator()
    resumed = make_ppo(second)
    resumed.load_state_dict(checkpoints.load_latest())
    second.set_state(first.get_state())
    ran(5, whole, first, begin=3)
    ran(5, resumed, second, begin=3)
    both = zip(whole.policy.parameters(), resumed.policy.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in both)


def test_rollouts_of_another_kind_are_forgotten(generator):
    policy = make_policy("flow_noise", 4).float()
    reuse = RolloutReuse(1, policy)
    first, second = (
        one_decision(policy, generator, RatioMode.JOINT, seed=i, rows=8) for i in range(2)
    )
    shard = torch.zeros(1, 8, dtype=torch.int64)
    reuse.join(replace(first, shard=shard), policy)
    assert reuse.join(second, policy) is second


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
        {"ratio": "single_step"},
        {"regularization": {"bc_rollout": 0.1}},
        {"proximal_ema": 0.5},
        {"advantage": "monte_carlo"},
        {"group_size": 4},
    ],
)
def test_options_without_a_correction_are_refused(fields):
    with pytest.raises(ValidationError, match="reused_rollouts: does not go with"):
        Ppo.Config.model_validate({"reused_rollouts": 1, **fields})
