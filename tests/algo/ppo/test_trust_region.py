"""Trust regions in hand-worked numbers: what each costs, and where it lets go."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from robo_rl.algo.ppo.trust_region import clip, clip_ramp, dual_clip, joint_clip, spo

RATIO = [0.5, 0.9, 1.0, 1.1, 1.5, 5.0]


def losses(trust, adv: float, low=0.2, high=0.2) -> list[float]:
    ratio = torch.tensor(RATIO, dtype=torch.float64)
    return trust(ratio, torch.full_like(ratio, adv), low, high).tolist()


def gradients(trust, adv: float, low=0.2, high=0.2) -> list[float]:
    ratio = torch.tensor(RATIO, dtype=torch.float64, requires_grad=True)
    trust(ratio, torch.full_like(ratio, adv), low, high).sum().backward()
    assert ratio.grad is not None
    return ratio.grad.tolist()


def test_clip_is_the_worse_of_the_ratio_and_the_clipped_ratio():
    # A = 2: −2·min(r, 1.2); A = −2: 2·max(r, 0.8)
    assert losses(clip, 2.0) == pytest.approx([-1.0, -1.8, -2.0, -2.2, -2.4, -2.4])
    assert losses(clip, -2.0) == pytest.approx([1.6, 1.8, 2.0, 2.2, 3.0, 10.0])
    assert gradients(clip, 2.0) == pytest.approx([-2.0, -2.0, -2.0, -2.0, 0.0, 0.0])
    assert gradients(clip, -2.0) == pytest.approx([0.0, 2.0, 2.0, 2.0, 2.0, 2.0])


def test_clip_may_give_more_room_above_than_below():
    assert losses(clip, 1.0, low=0.05, high=1.0) == pytest.approx([-0.5, -0.9, -1, -1.1, -1.5, -2])
    assert losses(clip, -1.0, low=0.05, high=1.0) == pytest.approx([0.95, 0.95, 1, 1.1, 1.5, 5.0])


def test_dual_clip_bounds_what_a_ratio_that_ran_away_costs():
    # c = 3: no loss above −3·A where A < 0, and no gradient there
    assert losses(dual_clip, -2.0) == pytest.approx([1.6, 1.8, 2.0, 2.2, 3.0, 6.0])
    assert gradients(dual_clip, -2.0) == pytest.approx([0.0, 2.0, 2.0, 2.0, 2.0, 0.0])
    assert losses(dual_clip, 2.0) == losses(clip, 2.0)


def test_spo_is_a_parabola_whose_optimum_is_at_the_border():
    # A = 2, ε = 0.2: −(2·r − 2·(r − 1)²/0.4), so 1.5 → −3 + 1.25 and 5 → −10 + 80
    want = [-1.0 + 1.25, -1.8 + 0.05, -2.0, -2.2 + 0.05, -3.0 + 1.25, -10.0 + 80.0]
    assert losses(spo, 2.0) == pytest.approx(want)
    assert losses(spo, -2.0) == pytest.approx([1 + 1.25, 1.8 + 0.05, 2, 2.25, 4.25, 90.0])
    for adv, best, epsilon in [(2.0, 1.3, 0.3), (-2.0, 0.9, 0.1)]:
        ratio = torch.tensor([best], dtype=torch.float64, requires_grad=True)
        spo(ratio, torch.tensor([adv], dtype=torch.float64), 0.1, 0.3).backward()
        assert ratio.grad is not None
        assert float(ratio.grad) == pytest.approx(0.0, abs=1e-6), epsilon


def test_spo_has_no_dead_gradient():
    """Outside of the region it pulls back, where the clip has let go."""
    assert gradients(spo, 2.0)[-1] > 0.0 == gradients(clip, 2.0)[-1]
    assert gradients(spo, -2.0)[0] < 0.0 == gradients(clip, -2.0)[0]


@pytest.mark.parametrize("trust", [clip, dual_clip, spo])
def test_at_ratio_one_all_are_the_policy_gradient(trust):
    for adv in (-1.5, 2.0):
        assert losses(trust, adv)[2] == pytest.approx(-adv)
        assert gradients(trust, adv)[2] == pytest.approx(-adv)


@pytest.mark.parametrize("trust", [clip, dual_clip, spo])
def test_epsilon_may_differ_by_unit(trust):
    ratio, adv = torch.tensor([1.5, 1.5]), torch.ones(2)
    low = high = torch.tensor([0.1, 0.4])
    for i, epsilon in enumerate([0.1, 0.4]):
        alone = trust(ratio[:1], adv[:1], epsilon, epsilon)
        torch.testing.assert_close(trust(ratio, adv, low, high)[i : i + 1], alone)


def test_the_ramp_rises_exponentially_from_its_base():
    position = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)
    # half way: 0.01 + 0.19·(e^1.5 − 1)/(e^3 − 1) = 0.01 + 0.19·0.182426
    want = [0.01, 0.01 + 0.19 * 0.1824255, 0.2]
    assert clip_ramp(0.01, 0.2, position).tolist() == pytest.approx(want, rel=1e-6)


@pytest.mark.parametrize(("dims", "want"), [(12, (0.113615, 0.126825)), (28, (0.245281, 0.321291))])
def test_a_published_epsilon_of_means_is_converted(dims, want):
    assert joint_clip(0.01, dims) == pytest.approx(want, rel=1e-5)


def test_converted_the_clip_of_sums_is_the_clip_of_means(generator):
    """The same units are clipped, whatever their log-probabilities."""
    dims, epsilon = 8, 0.01
    gaps = 0.01 * torch.randn(500, dims, generator=generator, dtype=torch.float64)
    ratio_of_mean, ratio_of_sum = gaps.mean(1).exp(), gaps.sum(1).exp()
    low, high = joint_clip(epsilon, dims)

    def outside(ratio: Tensor, below: float, above: float) -> Tensor:
        return (ratio < 1.0 - below) | (ratio > 1.0 + above)

    clipped = outside(ratio_of_mean, epsilon, epsilon)
    assert torch.equal(clipped, outside(ratio_of_sum, low, high))
    assert 0.0 < float(clipped.double().mean()) < 0.2
    assert math.log1p(high) == pytest.approx(dims * math.log1p(epsilon))
