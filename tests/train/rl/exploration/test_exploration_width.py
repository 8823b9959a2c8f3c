"""How far exploration moves is said in physical units, and in control steps."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from small_policies import make_obs, make_policy

from robo_rl.data.rollout import Rollout
from robo_rl.train.rl.exploration.exploration_width import describe_exploration

ROWS = 4000


class Hand:
    """A task that sends the hand to twice the action."""

    def commanded_hand_pos(self, act: torch.Tensor) -> torch.Tensor:
        return 2.0 * torch.cat([act, act[:, :1] * 0], dim=1)


def block(policy: Any) -> Rollout:
    obs = make_obs(ROWS)
    chain = policy.sample(obs, torch.Generator().manual_seed(0))
    found = SimpleNamespace(obs=obs, x=chain.x, rows=lambda rows: rows)
    return cast("Rollout", found)


def test_it_is_the_std_of_a_gaussian_in_the_actions_units():
    """Both bounds are 0.02: two elements of 0.02, and a hand of 2·√2·0.02 m = 56.6 mm."""
    fixed = {"name": "gaussian", "std_min": 0.02, "std_max": 0.02 + 1e-9}
    policy = make_policy("gaussian", 1, sampler=fixed)
    said = describe_exploration(policy, block(policy), None)
    numbers = re.findall(r"element \d ([\d.]+)", said)
    assert [float(x) for x in numbers] == pytest.approx([0.02, 0.02], rel=0.05)
    hand = describe_exploration(policy, block(policy), Hand())
    (mm,) = re.findall(r"the hand by ([\d.]+) mm", hand)
    assert float(mm) == pytest.approx(56.6, rel=0.05)
    act = policy.normalizer.affine("act")
    act.step = None
    assert "control step" not in describe_exploration(policy, block(policy), None)
    act.step = torch.zeros(2)  # demonstrations that hold one command each
    assert "control step" not in describe_exploration(policy, block(policy), None)
    act.step = torch.tensor([0.04, 0.04])
    (steps,) = re.findall(r", ([\d.]+) of what a control step", describe_exploration(
        policy, block(policy), None))  # fmt: skip
    assert float(steps) == pytest.approx(0.5, rel=0.05)
