"""The average of weights: its decay, and that training leaves it alone."""

from __future__ import annotations

import pytest
import torch
from small_policies import make_policy
from torch import nn

from robo_rl.optim.ema import Ema, Ewma, TargetNetwork


class Number(nn.Module):
    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.tensor(value, dtype=torch.float64))


def test_the_decay_grows_to_its_limit():
    module, ema = Number(0.0), Ema(Number(1.0), decay=0.3)
    for update in range(1, 5):
        ema.update(module)
        # (1+n)/(10+n) is 2/11, 3/12, then 4/13 and more, above the limit of 0.3
        expected = {1: 2 / 11, 2: 2 / 11 * 3 / 12}.get(
            update, 2 / 11 * 3 / 12 * 0.3 ** (update - 2)
        )
        assert float(ema.module.value) == pytest.approx(expected, rel=1e-12)
    assert ema.updates == 4


def test_what_follows_has_one_decay_from_the_first_update_on():
    module, target = Number(0.0), TargetNetwork(Number(1.0), decay=0.9)
    for update in range(1, 4):
        target.update(module)
        assert float(target.module.value) == pytest.approx(0.9**update, rel=1e-12)


def test_weights_that_stand_still_are_their_own_average():
    module = nn.Linear(4, 3)
    ema = Ema(module, decay=0.999)
    for _ in range(100):
        ema.update(module)
    torch.testing.assert_close(ema.module.weight, module.weight)


def test_the_average_is_a_copy_that_takes_no_gradient():
    module = nn.Linear(4, 3)
    ema = Ema(module, decay=0.9)
    before = ema.module.weight.clone()
    module.weight.data += 1.0
    assert torch.equal(ema.module.weight, before)
    assert not any(p.requires_grad for p in ema.module.parameters())
    assert all(p.requires_grad for p in module.parameters())


def test_it_smooths_what_training_shakes():
    generator = torch.Generator().manual_seed(0)
    module, ema, shaken, smooth = Number(0.0), Ema(Number(0.0), decay=0.99), [], []
    for _ in range(3000):
        with torch.no_grad():
            module.value.copy_(1.0 + torch.randn((), generator=generator))
        ema.update(module)
        shaken.append(module.value.item())
        smooth.append(ema.module.value.item())
    # The std of an average with decay d is √((1−d)/(1+d)) = 0.0709 of what is averaged.
    assert torch.tensor(smooth[500:]).std() < 0.1 * torch.tensor(shaken[500:]).std()
    assert torch.tensor(smooth[500:]).mean() == pytest.approx(1.0, abs=0.05)


def test_the_proximal_average_weighs_the_past_by_powers_of_its_decay():
    """Of weights 1, 2, 4 with β = ½: (4 + ½·2 + ¼·1)/(1 + ½ + ¼) = 3."""
    ema = Ewma(Number(1.0), decay=0.5)
    ema.update(Number(2.0))
    assert float(ema.module.value) == pytest.approx((2.0 + 0.5) / 1.5)
    ema.update(Number(4.0))
    assert float(ema.module.value) == pytest.approx(3.0)


def test_an_average_continues_from_its_state():
    one, other = Ema(Number(0.0), decay=0.9), Ema(Number(5.0), decay=0.9)
    for _ in range(3):
        one.update(Number(1.0))
    other.load_state_dict(one.state_dict())
    for ema in (one, other):
        ema.update(Number(2.0))
    assert float(one.module.value) == float(other.module.value)


def test_what_has_no_weights_is_shared():
    policy = make_policy("flow_noise", 2)
    ema = Ema(policy, decay=0.9)
    assert ema.module.normalizer is policy.normalizer
    assert ema.module.net is not policy.net
    shift = torch.tensor([1.0, 2.0, 3.0])
    policy.normalizer.set_affine("obs.pos", shift, torch.ones(3))
    assert torch.equal(ema.module.normalizer.affine("obs.pos").shift, shift.double())
