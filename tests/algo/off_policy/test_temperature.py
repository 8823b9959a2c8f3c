"""The temperature rises while there is too little entropy, and falls while there is too much."""

from __future__ import annotations

import copy

import pytest
import torch

from robo_rl.algo.off_policy.temperature import Temperature


@pytest.mark.parametrize(("entropy", "log"), [(-2.0, 0.1), (0.0, -0.1)])
def test_adams_first_step_is_the_rate(entropy, log):
    temperature = Temperature(0.5, 0.1, target=-1.0)
    temperature.step(torch.tensor(entropy))
    expected = torch.tensor(0.5).log() + log
    torch.testing.assert_close(temperature.value.log(), expected)


def test_it_can_be_kept_and_continues_to_the_bit():
    fixed = Temperature(0.5, 0.0, target=-1.0)
    fixed.step(torch.tensor(3.0))
    assert float(fixed.value) == pytest.approx(0.5)
    one, other = Temperature(0.5, 0.1, target=-1.0), Temperature(2.0, 0.1, target=-1.0)
    one.step(torch.tensor(-3.0))
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    for each in (one, other):
        each.step(torch.tensor(0.5))
    assert torch.equal(one.value, other.value)


def test_what_is_not_finite_changes_nothing():
    temperature = Temperature(0.5, 0.1, target=-1.0)
    temperature.step(torch.tensor(float("nan")))
    assert float(temperature.value) == pytest.approx(0.5)
