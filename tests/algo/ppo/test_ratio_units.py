"""Sample units: which steps of which decisions make a ratio."""

from __future__ import annotations

import pytest
import torch

from robo_rl.algo.ppo.ratio_units import RatioMode, make_units, units_per_decision
from robo_rl.core.errors import ConfigError

STEPS = torch.tensor([1, 3])


def test_per_step_has_a_unit_for_every_decision_and_step():
    units = make_units(RatioMode.PER_STEP, 3, STEPS, None)
    pairs = list(zip(units.row.tolist(), units.k.flatten().tolist(), strict=True))
    assert pairs == [(0, 1), (0, 3), (1, 1), (1, 3), (2, 1), (2, 3)]
    assert units_per_decision(RatioMode.PER_STEP, STEPS) == 2


def test_joint_has_one_unit_a_decision_with_all_steps():
    units = make_units(RatioMode.JOINT, 2, STEPS, None)
    assert units.row.tolist() == [0, 1]
    assert units.k.tolist() == [[1, 3], [1, 3]]
    assert units_per_decision(RatioMode.JOINT, STEPS) == 1


def test_one_step_takes_the_chains_own_step():
    units = make_units(RatioMode.SINGLE_STEP, 2, STEPS, torch.tensor([3, 1]))
    assert units.k.tolist() == [[3], [1]]


def test_one_step_refuses_chains_that_are_stochastic_everywhere():
    with pytest.raises(ConfigError, match="one stochastic step"):
        make_units(RatioMode.SINGLE_STEP, 2, STEPS, None)
