"""An acting network that follows: how far, and when."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from robo_rl.algo.nft.acting_policy_ema import ActingPolicyEma, ema_update_


def test_the_decay_rises_from_its_flat_part_to_its_limit():
    lag = ActingPolicyEma(start=75, slope=0.0075, max_decay=0.999)
    assert [lag.decay(i) for i in (0, 75)] == [0.0, 0.0]
    assert lag.decay(76) == pytest.approx(0.0075)
    assert lag.decay(115) == pytest.approx(0.3)
    assert lag.decay(1000) == 0.999


def test_following_goes_all_but_a_share_of_the_way():
    acting, learnt = nn.Linear(2, 1), nn.Linear(2, 1)
    before, target = acting.weight.detach().clone(), learnt.weight.detach().clone()
    ema_update_(acting, learnt, 0.75)
    torch.testing.assert_close(acting.weight, 0.75 * before + 0.25 * target)
    ema_update_(acting, learnt, 0.0)
    torch.testing.assert_close(acting.weight, target)
