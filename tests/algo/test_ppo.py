"""PPO on every family and ratio mode: fresh ratios are 1, and a bandit is learnt."""

from __future__ import annotations

import pytest
import torch
from small_policies import make_obs, make_policy

from robo_rl.algo.ppo import Ppo
from robo_rl.algo.ratio import RatioMode, make_units
from robo_rl.algo.surrogate import ActorData, unit_log_prob
from robo_rl.data.rollout import Rollout, RolloutBuilder, executed
from robo_rl.errors import PluginError

TARGET = 0.5
ROWS = 512
CASES = [
    ("gaussian", "joint"),
    ("ddpm", "per_step"),
    ("ddim", "joint"),
    ("flow_sde", "one_step"),
    ("flow_cps", "per_step"),
    ("flow_noise", "joint"),
    ("flow_noise", "per_step"),
    ("flow_noise", "one_step"),
]


def one_decision(policy, generator, mode, seed=0) -> Rollout:
    """A bandit: every decision ends its episode; reward is −‖act − target‖² of what is executed."""
    obs = {name: o.float() for name, o in make_obs(ROWS, seed).items()}
    with torch.no_grad():
        chain = policy.sample(obs, generator, one_step=mode is RatioMode.ONE_STEP)
    num_exec = torch.full((ROWS,), policy.exec_horizon)
    mask = executed(num_exec, policy.horizon)
    rew = -((chain.act - TARGET).square() * mask).sum(dim=(1, 2))
    columns = {
        "x": chain.x,
        "log_prob": (chain.log_prob * mask[:, None]).sum(dim=(2, 3)),
        "rew": rew,
        "terminated": torch.ones(ROWS, dtype=torch.bool),
        "truncated": torch.zeros(ROWS, dtype=torch.bool),
        "valid": torch.ones(ROWS, dtype=torch.bool),
        "discount": torch.full((ROWS,), 0.99),
        "num_exec": num_exec,
    }
    if chain.k_star is not None:
        columns["k_star"] = chain.k_star
    builder = RolloutBuilder()
    builder.add(obs, obs, columns)
    return builder.finish(obs)


@pytest.mark.parametrize(("sampler", "mode"), CASES)
def test_a_bandit_is_learnt_and_fresh_ratios_are_one(sampler, mode, generator):
    mode = RatioMode(mode)
    policy = make_policy(sampler, 4).float()
    cfg = Ppo.Config(ratio=mode, lr=1e-3, target_kl=0.3, minibatch=256, warmup_updates=1)
    ppo = Ppo(cfg, policy, ROWS, generator)
    rewards, errors = [], []
    for update in range(30):
        rollout = one_decision(policy, generator, mode, seed=update)
        rewards.append(float(rollout.rew.mean()))
        errors.append(ppo.update(rollout).get("ratio_error", 0.0))
    first, last = sum(rewards[:3]) / 3, sum(rewards[-3:]) / 3
    assert max(errors) < 1e-3
    assert last > first + 0.2 * abs(first), rewards


def test_unexecuted_actions_take_no_part_in_the_ratio(generator):
    policy = make_policy("flow_noise", 4).float()
    rollout = one_decision(policy, generator, RatioMode.JOINT)
    units = make_units(RatioMode.JOINT, ROWS, torch.arange(4), None)
    with torch.no_grad():
        before = unit_log_prob(policy, ActorData.of(rollout, rollout.rew), units)
        rollout.num_exec[:, : ROWS // 2] = 1  # their second action was not executed after all
        after = unit_log_prob(policy, ActorData.of(rollout, rollout.rew), units)
    torch.testing.assert_close(before, rollout.log_prob[0].sum(-1), rtol=0, atol=1e-3)
    assert bool((after != before)[: ROWS // 2].all())
    assert torch.equal(after[ROWS // 2 :], before[ROWS // 2 :])


def test_a_policy_whose_score_is_not_its_draw_is_refused(generator):
    policy = make_policy("flow_noise", 4).float()
    ppo = Ppo(Ppo.Config(warmup_updates=0), policy, ROWS, generator)
    rollout = one_decision(policy, generator, RatioMode.JOINT)
    rollout.log_prob += 0.1
    with pytest.raises(PluginError, match="not 1"):
        ppo.update(rollout)


def test_it_continues_from_its_state_to_the_bit():
    results = []
    for interrupted in (False, True):
        generator = torch.Generator().manual_seed(0)
        policy = make_policy("flow_noise", 4).float()
        torch.manual_seed(1)
        ppo = Ppo(Ppo.Config(minibatch=128), policy, ROWS, generator)
        for update in range(4):
            ppo.update(one_decision(policy, generator, RatioMode.JOINT, update))
            if interrupted and update == 1:
                state = ppo.state_dict()
                torch.manual_seed(2)
                policy = make_policy("flow_noise", 4).float()
                ppo = Ppo(Ppo.Config(minibatch=128), policy, ROWS, generator)
                ppo.load_state_dict(state)
        results.append(torch.cat([p.flatten() for p in policy.parameters()]))
    assert torch.equal(results[0], results[1])
