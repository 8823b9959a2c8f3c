"""The loss at a given noise and time is what cloning averages, in all families that undo noise."""

from __future__ import annotations

import pytest
import torch
from small_policies import make_obs, make_policy

from robo_rl.policy.families.matching import MatchingPolicy

ROWS = 16
CASES = [("ddpm", {}), ("ddim", {}), ("flow_noise", {}), ("flow_sde", {"prediction_type": "vel"})]


def matching(sampler: str, fields: dict[str, str]) -> MatchingPolicy:
    policy = make_policy(sampler, 10, **fields)
    assert isinstance(policy, MatchingPolicy)
    return policy


@pytest.mark.parametrize(("sampler", "fields"), CASES)
def test_cloning_is_the_mean_of_the_loss_at_what_it_draws(sampler, fields):
    policy, obs = matching(sampler, fields), make_obs(ROWS)
    act = torch.linspace(-1, 1, ROWS * 6).double().view(ROWS, 3, 2)
    loss = policy.loss(obs, act, torch.Generator().manual_seed(3))
    noise, t = policy.draw_noise(act, torch.Generator().manual_seed(3))
    at = policy.loss_at(policy.encode(obs), act, noise, t)
    assert at.shape == act.shape
    weight = policy.noise_fraction(t) ** 2 if policy.cfg.loss_weight == "action" else 1.0
    torch.testing.assert_close(loss, weight * at.mean(dim=(1, 2)), rtol=0, atol=0)
    plain = matching(sampler, {**fields, "loss_weight": "prediction"})
    loss = plain.loss(obs, act, torch.Generator().manual_seed(3))
    torch.testing.assert_close(loss, at.mean(dim=(1, 2)), rtol=0, atol=0)


@pytest.mark.parametrize(("sampler", "fields"), CASES)
def test_a_network_that_names_the_truth_has_no_loss(sampler, fields):
    """Exact at every time that the loss draws: the state holds act and noise as the law says."""
    policy, obs = matching(sampler, fields), make_obs(ROWS)
    act = torch.full((ROWS, 3, 2), 0.3).double()
    noise, t = policy.draw_noise(act, torch.Generator().manual_seed(4))
    truth = {"act": act, "vel": act - noise}.get(getattr(policy.cfg, "prediction_type", ""), noise)
    policy.net.forward = lambda x, t, embedding: truth
    loss = policy.loss_at(policy.encode(obs), act, noise, t)
    torch.testing.assert_close(loss, torch.zeros_like(loss), rtol=0, atol=1e-12)


@pytest.mark.parametrize("sampler", ["flow_noise", "ddim", "ddpm"])
def test_cloning_draws_the_times_of_inference_and_each_equally_often(sampler):
    policy = matching(sampler, {"train_times": "grid"})
    act = torch.zeros(5000, 3, 2).double()
    _, t = policy.draw_noise(act, torch.Generator().manual_seed(5))
    times, counts = t.unique(return_counts=True)
    torch.testing.assert_close(times, policy.eval_sampler.times.sort().values, rtol=0, atol=0)
    # five standard deviations of a binomial count
    assert (counts - 500).abs().max() < 5 * (500 * 0.9) ** 0.5


@pytest.mark.parametrize(("sampler", "most"), [("flow_noise", 5000), ("ddim", 20)])
def test_uniform_times_fill_the_schedule(sampler, most):
    policy = matching(sampler, {"train_times": "uniform"})
    act = torch.zeros(5000, 3, 2).double()
    _, t = policy.draw_noise(act, torch.Generator().manual_seed(5))
    assert 0.9 * most < len(t.unique()) <= most
    assert float(t.min()) >= 0.0
    assert float(t.max()) < 1.0


def test_velocities_have_the_published_loss_unless_told_otherwise():
    def loss_of(**fields: str) -> tuple[str, str]:
        cfg = matching("flow_noise", fields).cfg
        return cfg.train_times, cfg.loss_weight

    assert loss_of() == ("grid", "action")
    assert loss_of(prediction_type="vel") == ("uniform", "prediction")
    assert loss_of(prediction_type="vel", train_times="grid") == ("grid", "prediction")
    assert loss_of(prediction_type="vel", loss_weight="action") == ("uniform", "action")
