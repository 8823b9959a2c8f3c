"""What fitted Q evaluation says of policies whose worth is known."""

from __future__ import annotations

import pytest
import torch
from small_chain import GAMMA, logged_chain
from small_logged import HORIZON, Always, logged_replay, small_policy
from small_policies import make_policy

from robo_rl.algo.policy_samples import act_normalized
from robo_rl.critic.q import QCritic
from robo_rl.ope.fqe import Fqe
from robo_rl.ope.policy_comparison import OpeAnswer, bootstrap_interval, compare_estimates
from robo_rl.ope.resample import Resample
from robo_rl.ope.time_aware import ELAPSED

ROWS = 600
CFG = Fqe.Config(steps=600, lr=3e-3, critic=QCritic.Config(members=6, hidden=(32,)))


def members(value: float, seed: int = 0) -> torch.Tensor:
    """Estimates of a policy that always says so."""
    generator = torch.Generator().manual_seed(seed)
    resample = Resample(torch.arange(ROWS), 6, torch.Generator().manual_seed(1))
    torch.manual_seed(2)
    policy = Always(small_policy(), value)
    fqe = Fqe(CFG, policy, logged_replay(ROWS), resample, generator)  # pyright: ignore
    for _ in range(CFG.steps):
        fqe.step()
    return fqe.estimate().members


def test_so_few_members_that_nothing_scatters_are_refused():
    with pytest.raises(ValueError, match="at least 4"):
        Fqe.Config(critic=QCritic.Config(members=1))


def test_the_items_of_its_critics_may_be_named():
    """The time feature is read beside them."""
    critic = QCritic.Config(members=4, hidden=(8,), sees=("pos",))
    cfg, generator = Fqe.Config(steps=2, critic=critic), torch.Generator().manual_seed(0)
    resample = Resample(torch.arange(ROWS), 4, torch.Generator().manual_seed(1))
    fqe = Fqe(cfg, Always(small_policy(), 0.6), logged_replay(ROWS), resample, generator)  # pyright: ignore
    assert fqe.critic.names == ("pos", ELAPSED)
    assert fqe.step()["loss"] > 0.0


def test_it_tells_what_pays_from_what_does_not_and_a_policy_from_itself_by_nothing():
    good, bad, again = members(0.6), members(-0.6), members(0.6)
    assert abs(float(good.mean()) - 1.0) < 0.1
    assert abs(float(bad.mean())) < 0.1
    assert compare_estimates(good, bad).answer is OpeAnswer.BETTER
    assert compare_estimates(bad, good).answer is OpeAnswer.WORSE
    assert torch.equal(good, again)
    assert compare_estimates(good, again).answer is OpeAnswer.CANNOT_TELL


def from_the_start(limit: int, value: float, steps: int = 1500) -> float:
    """What a policy of one action comes to from the chain's first place."""
    chain = logged_chain(300, limit)
    resample = Resample(chain.last, 4, torch.Generator().manual_seed(1))
    torch.manual_seed(2)
    cfg = Fqe.Config(
        steps=steps, lr=3e-3, target_ema=0.97, critic=QCritic.Config(members=4, hidden=(64,))
    )
    policy, generator = Always(small_policy(), value), torch.Generator().manual_seed(0)
    fqe = Fqe(cfg, policy, chain.replay, resample, generator)  # pyright: ignore
    for _ in range(steps):
        fqe.step()
    obs = chain.replay.transitions(
        resample.starts[::2]
    ).obs  # every other one is at the first place
    return float(fqe.target.module(obs, act_normalized(fqe.policy, obs, generator)).mean())


@pytest.mark.slow
def test_a_value_is_carried_along_chunks_of_different_lengths():
    """Three decisions of 2, 1 and 2 steps; the reward comes in the last step: γ⁴."""
    assert from_the_start(limit=14, value=0.6) == pytest.approx(GAMMA**4, abs=0.04)
    assert from_the_start(limit=14, value=-0.6) == pytest.approx(0.0, abs=0.04)


@pytest.mark.slow
def test_what_would_come_behind_the_time_limit_is_not_counted():
    """Five steps lead to the end, and there are but four: going on behind the cut would give γ⁴."""
    assert from_the_start(limit=4, value=0.6) == pytest.approx(0.0, abs=0.04)


def test_an_interval_of_resamples_covers_the_mean_as_often_as_it_says():
    generator = torch.Generator().manual_seed(0)
    covered = 0
    for _ in range(400):
        values = torch.randn(60, generator=generator)
        resample = Resample(torch.arange(60), 12, generator)
        low, high = bootstrap_interval(resample.mean(values.expand(12, 60)))
        covered += low <= 0.0 <= high
    # 95 % of 400, less three standard errors and what a bootstrap of 12 falls short by
    assert covered >= 0.95 * 400 - 3 * 4.4 - 10


def test_a_resample_draws_as_many_episodes_as_there_are_and_weighs_their_rows():
    last = torch.tensor([2, 2, 2, 4, 4, 5])
    resample = Resample(last, 5, torch.Generator().manual_seed(0))
    assert resample.starts.tolist() == [0, 3, 5]
    assert resample.counts.sum(dim=1).tolist() == [3.0] * 5
    weights = resample.weights(torch.arange(6))
    assert torch.equal(weights[:, 0], weights[:, 2])
    assert torch.equal(weights[:, 3], resample.counts[:, 1])
    assert torch.equal(resample.mean(torch.ones(5, 3)), torch.ones(5))


def test_which_batches_are_drawn_does_not_hang_on_the_policy():
    """Two policies that are judged with one seed are judged on the same ones."""
    chain = logged_chain(20, 6)
    resample, states = Resample(chain.last, 4, torch.Generator().manual_seed(1)), []
    for family in ("gaussian", "flow_sde"):
        policy = make_policy(family, 2, horizon=HORIZON, exec_horizon=1).float()
        generator = torch.Generator().manual_seed(0)
        cfg = Fqe.Config(steps=50, critic=QCritic.Config(members=4, hidden=(8,)))
        Fqe(cfg, policy, chain.replay, resample, generator)
        states.append(generator.get_state())
    assert torch.equal(*states)
