"""Targets of action values: the law of a return is learnt, not its mean alone."""

from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError

from robo_rl.algo.off_policy.td_targets import CategoricalBackup, ScalarBackup, make_backup
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.critic.aggregate import EnsembleAggregation
from robo_rl.critic.heads import HeadConfig
from robo_rl.critic.q import QCritic
from robo_rl.data.normalize import Normalizer
from robo_rl.data.replay import Transitions
from robo_rl.optim.ema import Ema

BOUNDS = (-2.0, 2.0)


def make(kind: str = "categorical", members: int = 2, bins: int = 42) -> QCritic:
    obs_spec = ObsSpec(items={"state": TensorSpec(shape=(2,))})
    act_spec = ActSpec(shape=(1,), rate_hz=1.0, low=(-1.0,), high=(1.0,))
    head = HeadConfig.model_validate({"kind": kind, "bounds": BOUNDS, "bins": bins})
    torch.manual_seed(0)
    return QCritic(
        QCritic.Config(members=members, hidden=(64,), head=head),
        obs_spec,
        act_spec,
        obs_horizon=1,
        exec_horizon=1,
        normalizer=Normalizer.identity(obs_spec, act_spec),
    )


def batch(state: torch.Tensor, to: torch.Tensor, rew: torch.Tensor, ends: torch.Tensor):
    """Transitions between two states, one-hot, of discount 0.9."""
    number = len(state)
    return Transitions(
        obs={"state": torch.eye(2)[state][:, None]},
        act=torch.zeros(number, 1, 1),
        rew=rew,
        discount=torch.full((number,), 0.9),
        terminated=ends,
        next_obs={"state": torch.eye(2)[to][:, None]},
        num_exec=torch.ones(number, dtype=torch.int64),
        demo=torch.zeros(number, dtype=torch.bool),
        human=torch.zeros(number, dtype=torch.bool),
        row=to,
        next_row=to,
    )


def moments(critic: QCritic, obs: dict[str, torch.Tensor]) -> torch.Tensor:
    """Mean and variance of the law, (M, B, 2)."""
    law, centres = (
        critic.distributions(obs, torch.zeros(2, 1, 1)).detach(),
        critic.histogram.centres,
    )
    mean = law @ centres
    return torch.stack([mean, law @ centres.square() - mean.square()], dim=-1)


@pytest.mark.parametrize("rule", ["min", "mean"])
def test_the_law_of_a_return_is_learnt(rule, generator):
    """State 0 goes to state 1 without reward; there a coin gives 1 or −1 and all is over.

    Returns are ±1 with variance 1 in state 1, ±0.9 with variance 0.81 in state 0. A backup of
    means would end with a variance of 0 in state 0. Bins of 0.1 add theirs: a value between two
    centres, at shares p and 1 − p, has p(1 − p)·0.1², at most 0.0025.
    """
    critic = make()
    target = Ema(critic, decay=0.9)
    backup = make_backup(
        critic,
        target.module,
        EnsembleAggregation(EnsembleAggregation.Config(mode=rule), 2),
        generator,
    )
    optim = torch.optim.Adam(critic.net.parameters(), lr=3e-3)
    seen = batch(
        torch.tensor([0, 0, 1, 1]),
        torch.tensor([1, 1, 1, 1]),
        torch.tensor([0.0, 0.0, 1.0, -1.0]),
        torch.tensor([False, False, True, True]),
    )
    for _ in range(600):
        optim.zero_grad()
        loss, _ = backup.loss(seen, torch.zeros(4, 1, 1), torch.zeros(4))
        loss.mean(dim=1).sum().backward()
        optim.step()
        target.update(critic)
    found = moments(critic, {"state": torch.eye(2)[:, None]})
    expected = torch.tensor([[0.0, 0.81], [0.0, 1.0]]).expand(2, 2, 2)
    torch.testing.assert_close(found, expected, rtol=0.0, atol=0.02)


@pytest.mark.parametrize("rule", ["min", "mean", "subset_min"])
def test_the_mean_of_a_law_backed_up_is_the_backup_of_its_mean(rule, generator):
    """As long as nothing leaves the bounds: fresh critics say values near 0, ``rew`` is small."""
    critic = make(members=3)
    chosen = EnsembleAggregation(EnsembleAggregation.Config(mode=rule, subset=2), 3)
    seen = batch(
        torch.tensor([0, 1]),
        torch.tensor([1, 0]),
        torch.tensor([0.05, -0.1]),
        torch.tensor([False, True]),
    )
    act, cost = torch.full((2, 1, 1), 0.3), torch.tensor([0.02, 0.5])
    found = []
    for kind in (CategoricalBackup, ScalarBackup):
        generator.manual_seed(3)
        found.append(kind(critic, critic, chosen, generator).loss(seen, act, cost)[1])
    torch.testing.assert_close(found[0], found[1], rtol=0.0, atol=2e-3)


def test_what_has_no_law_is_refused(generator):
    critic = make()
    lower = EnsembleAggregation(EnsembleAggregation.Config(mode="lower_bound"), 2)
    with pytest.raises(ValueError, match="lower_bound"):
        make_backup(critic, critic, lower, generator)
    with pytest.raises(ValidationError, match="categorical needs bounds"):
        HeadConfig(kind="categorical")


def test_values_are_backed_up_where_the_critic_has_no_laws(generator):
    rule = EnsembleAggregation(EnsembleAggregation.Config(), 2)
    assert isinstance(make_backup(make("two_hot"), make("two_hot"), rule, generator), ScalarBackup)
    assert isinstance(make_backup(make(), make(), rule, generator), CategoricalBackup)
