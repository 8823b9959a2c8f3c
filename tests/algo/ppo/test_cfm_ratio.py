"""FPO's ratio: estimated from the cloning loss, in joint units, where a family undoes noise."""

from __future__ import annotations

import math

import pytest
import torch
from small_policies import make_obs, make_policy

from robo_rl.algo.encoded_obs import EncodedObs
from robo_rl.algo.ppo.batch.actor_batch import ActorBatch
from robo_rl.algo.ppo.cfm_ratio import CfmLikelihood
from robo_rl.core.errors import ConfigError

ROWS = 40
FAMILIES = [
    ("ddpm", {}),
    ("ddim", {}),
    ("flow_noise", {}),
    ("flow_sde", {"prediction_type": "vel"}),
]


def acted(policy, horizon=2) -> ActorBatch:
    obs = make_obs(ROWS)
    with torch.no_grad():
        chain = policy.sample(obs, torch.Generator().manual_seed(1))
    executed = (torch.arange(policy.horizon) < horizon)[None, :, None].expand(ROWS, -1, 1)
    return ActorBatch(
        EncodedObs(obs), chain.x, chain.log_prob.sum(dim=(2, 3)), torch.zeros(ROWS), executed
    )


def likelihood(policy, data: ActorBatch, **fields) -> CfmLikelihood:
    cfg = CfmLikelihood.Config(**fields)
    return CfmLikelihood(cfg, policy, data, torch.Generator().manual_seed(2))


@pytest.mark.parametrize("per_sample", [False, True])
@pytest.mark.parametrize(("sampler", "fields"), FAMILIES)
def test_fresh_ratios_are_one_and_move_with_the_weights(sampler, fields, per_sample):
    policy = make_policy(sampler, 5, **fields)
    ratios = likelihood(policy, acted(policy), num_samples=3, per_sample=per_sample)
    pick = torch.arange(len(ratios.units.row))
    assert len(pick) == (3 * ROWS if per_sample else ROWS)
    torch.testing.assert_close(
        ratios.score(policy, pick).log_ratio, torch.zeros(len(pick)).double(), rtol=0, atol=1e-9
    )
    with torch.no_grad():
        policy.net.out.bias += 0.1
    assert bool((ratios.score(policy, pick).log_ratio.abs() > 1e-4).all())


def test_the_ratio_by_hand():
    """A network that says 0.2 everywhere and then 0.3: ln r = Σ (0.2 − ε)² − (0.3 − ε)².

    Over the two executed actions of two elements; the mean over both draws of noise ε.
    """
    policy = make_policy("ddim", 5)
    data = acted(policy)
    say = {"value": 0.2}
    policy.net.forward = lambda x, t, embedding: torch.full_like(x, say["value"])
    ratios = likelihood(policy, data, num_samples=2)
    noise = ratios._noise[:, :, :2]  # of the executed actions
    say["value"] = 0.3
    want = ((0.2 - noise).square() - (0.3 - noise).square()).sum(dim=(2, 3)).mean(1)
    got = ratios.score(policy, torch.arange(ROWS)).log_ratio
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-12)


def test_a_flows_ratio_by_hand():
    """Velocities 0 and then 0.1 where the action says a − ε: ln r = Σ (a − ε)² − (a − ε − 0.1)²."""
    policy = make_policy("flow_noise", 5, prediction_type="vel")
    data = acted(policy)
    say = {"value": 0.0}
    policy.net.forward = lambda x, t, embedding: torch.full_like(x, say["value"])
    ratios = likelihood(policy, data, num_samples=2)
    gap = data.x[:, None, -1, :2] - ratios._noise[:, :, :2]
    say["value"] = 0.1
    want = (gap.square() - (gap - 0.1).square()).sum(dim=(2, 3)).mean(1)
    torch.testing.assert_close(ratios.score(policy, torch.arange(ROWS)).log_ratio, want)


def test_the_ratio_of_draws_is_their_own():
    policy = make_policy("flow_noise", 5)
    data = acted(policy)
    together, alone = (
        likelihood(policy, data, num_samples=4, per_sample=each) for each in (False, True)
    )
    with torch.no_grad():
        policy.net.out.bias += 0.05
    mean = together.score(policy, torch.arange(ROWS)).log_ratio
    each = alone.score(policy, torch.arange(4 * ROWS)).log_ratio.view(ROWS, 4)
    torch.testing.assert_close(each.mean(1), mean)
    assert float((each - mean[:, None]).detach().abs().max()) > 1e-4


def test_actions_that_were_not_executed_take_no_part():
    policy = make_policy("flow_noise", 5)
    data = acted(policy)
    ratios = likelihood(policy, data)
    policy.net.forward = lambda x, t, embedding: torch.zeros_like(x)  # says nothing of its input
    before = ratios.score(policy, torch.arange(ROWS)).log_ratio
    data.x[:, -1, 2] += 1.0  # the third action, which is fed to the network but not scored
    torch.testing.assert_close(ratios.score(policy, torch.arange(ROWS)).log_ratio, before)
    data.x[:, -1, 1] += 1.0  # the second is
    moved = ratios.score(policy, torch.arange(ROWS)).log_ratio
    assert float((moved - before).abs().min()) > 1e-3


def test_raising_the_ratio_of_an_action_makes_it_likelier(generator):
    """What the estimate stands for: one descent step on −ln r brings the policy to the action."""
    policy = make_policy("flow_noise", 5)
    data = acted(policy, horizon=3)
    target = torch.full_like(data.x[:, -1], 0.8)
    data = data._replace(x=torch.cat([data.x[:, :-1], target[:, None]], dim=1))
    ratios = likelihood(policy, data)

    def distance() -> float:
        with torch.no_grad():
            act = policy.act(data.obs.items, torch.Generator().manual_seed(3))
        return float((act - target).square().mean())

    before = distance()
    assert math.isfinite(before)
    optim = torch.optim.Adam(policy.parameters(), lr=1e-3)
    for _ in range(20):
        optim.zero_grad()
        (-ratios.score(policy, torch.arange(ROWS)).log_ratio.mean()).backward()
        optim.step()
    assert distance() < before


def test_a_gaussian_is_refused_because_it_has_a_likelihood():
    policy = make_policy("gaussian", 1)
    with pytest.raises(ConfigError, match="undoing noise"):
        likelihood(policy, acted(policy))


def test_a_chain_that_is_trained_in_part_is_refused():
    policy = make_policy("flow_noise", 4, finetune_steps=2)
    with pytest.raises(ConfigError, match="finetune_steps"):
        likelihood(policy, acted(policy))
