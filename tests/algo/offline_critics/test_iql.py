"""Critics of the data's own actions."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from small_logged import logged_replay, small_policy

from robo_rl.algo.offline_critics.iql import Iql, expectile_loss
from robo_rl.critic.aggregate import EnsembleAggregation
from robo_rl.critic.heads import HeadConfig
from robo_rl.critic.q import QCritic
from robo_rl.critic.value import ValueCritic

HIDDEN = (32,)


def learnt(cfg: Iql.Config, steps: int, rows: int = 500) -> Iql:
    generator, replay = torch.Generator().manual_seed(0), logged_replay(rows)
    torch.manual_seed(0)
    critics = Iql(cfg, small_policy(), replay, generator)
    for _ in range(steps):
        critics.step()
    return critics


def config(**fields: object) -> Iql.Config:
    critic = QCritic.Config(members=2, hidden=HIDDEN)
    value = ValueCritic.Config(hidden=HIDDEN)
    known = {"critic": critic, "value": value, "lr": 3e-3, "target_ema": 0.9}
    return Iql.Config(**{**known, **fields})  # pyright: ignore


@pytest.mark.parametrize("expectile", [0.5, 0.7, 0.9])
def test_the_least_loss_is_at_the_expectile(expectile: float):
    sample = torch.randn(4000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    tried = torch.linspace(-1.0, 2.0, 601, dtype=torch.float64)
    costs = torch.stack([expectile_loss(sample - value, expectile).mean() for value in tried])
    best = tried[costs.argmin()]
    above, below = (sample - best).clamp(min=0.0).mean(), (best - sample).clamp(min=0.0).mean()
    assert float(above * expectile) == pytest.approx(float(below * (1.0 - expectile)), abs=2e-3)


def test_what_pays_has_the_advantage():
    critics, batch = (
        learnt(config(), 400),
        logged_replay(300, seed=1).transitions(torch.arange(300)),
    )
    advantage = critics.advantage(batch.obs, batch.act, torch.Generator())
    good = batch.act[:, 0, 0] > 0.2
    bad = batch.act[:, 0, 0] < -0.2
    assert advantage[good].mean() - advantage[bad].mean() > 0.7
    assert (advantage[good] > 0.0).float().mean() > 0.95


def test_a_higher_expectile_values_the_best_that_is_in_the_data():
    batch = logged_replay(300, seed=1).transitions(torch.arange(300))
    values = [learnt(config(expectile=e), 400).value(batch.obs).mean().item() for e in (0.5, 0.95)]
    assert values[0] == pytest.approx(0.5, abs=0.1)  # half of the decisions pay
    assert values[1] > 0.8


@pytest.mark.slow
def test_with_huber_and_a_quantile_a_few_absurd_rewards_do_little_harm():
    robust = config(
        critic=QCritic.Config(members=5, hidden=HIDDEN, head=HeadConfig(kind="huber")),
        aggregation=EnsembleAggregation.Config(mode="quantile", quantile=0.25),
    )
    batch = logged_replay(300, seed=1).transitions(torch.arange(300))
    errors = []
    for cfg in (robust, config()):
        generator, replay = torch.Generator().manual_seed(0), logged_replay(500)
        torch.manual_seed(0)
        critics = Iql(cfg, small_policy(), replay, generator)
        for _ in range(400):
            drawn = replay.sample(cfg.minibatch, generator)
            absurd = torch.rand(len(drawn.rew), generator=generator) < 0.02
            critics.learn(drawn._replace(rew=torch.where(absurd, 200.0, drawn.rew)))
            critics.target.update(critics.critic)
        errors.append((critics.value(batch.obs) - 0.5).abs().mean().item())
    assert errors[0] < 0.3 * errors[1]


def test_a_learner_that_is_put_back_goes_on_as_it_would_have():
    one, other = learnt(config(), 3), learnt(config(), 0)
    other.load_state_dict(deepcopy(one.state_dict()))
    other.generator.set_state(one.generator.get_state())
    for _ in range(6):
        assert one.step() == other.step()
