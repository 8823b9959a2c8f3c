"""Temporal-difference steps of an ensemble, against arithmetic."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from small_logged import logged_replay, small_policy

from robo_rl.critic.q import QCritic
from robo_rl.critic.q_learner import QLearner
from robo_rl.data.transitions import Transitions

EMA, LR = 0.9, 1e-2


@pytest.fixture
def batch() -> Transitions:
    rows = logged_replay(40).transitions(torch.arange(40))
    return rows._replace(terminated=torch.arange(40) % 2 == 0)


def learner() -> QLearner:
    torch.manual_seed(0)
    policy, cfg = small_policy(), QCritic.Config(members=3, hidden=(8,))
    sizes = {"obs_horizon": policy.obs_horizon, "exec_horizon": policy.exec_horizon}
    specs = (policy.obs_spec, policy.act_spec)
    critic = QCritic(cfg, *specs, **sizes, normalizer=policy.normalizer)
    return QLearner(critic, lr=LR, grad_clip=10.0, target_ema=EMA)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_is_of_the_bootstrapped_target_and_the_target_network_follows(
    batch: Transitions, *, weighted: bool
):
    q, next_value = learner(), torch.linspace(-1.0, 1.0, 40)
    weights = torch.rand(3, 40) if weighted else torch.ones(3, 40)
    wanted = batch.rew + batch.discount * torch.where(batch.terminated, 0.0, next_value)
    error = q.critic.loss(batch.obs, batch.act, wanted)
    before = [each.clone() for each in q.critic.net.parameters()]
    found = q.td_step(batch, next_value, weights) if weighted else q.td_step(batch, next_value)
    torch.testing.assert_close(found, (weights * error).sum(dim=0).mean().detach())
    pairs = zip(q.critic.net.parameters(), q.target.module.net.parameters(), before, strict=True)
    for now, target, old in pairs:
        torch.testing.assert_close(target, EMA * old + (1.0 - EMA) * now.detach())
    assert q.critic.loss(batch.obs, batch.act, wanted).mean() < error.mean()


def test_a_resumed_learner_takes_the_same_step(batch: Transitions):
    whole, again, ahead = learner(), learner(), torch.zeros(40)
    whole.td_step(batch, ahead)
    again.load_state_dict(deepcopy(whole.state_dict()))  # torch shares the moments otherwise
    assert torch.equal(whole.td_step(batch, ahead), again.td_step(batch, ahead))
    for one, other in zip(whole.critic.parameters(), again.critic.parameters(), strict=True):
        assert torch.equal(one, other)
