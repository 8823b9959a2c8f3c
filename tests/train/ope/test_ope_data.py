"""What a judge judges by."""

from __future__ import annotations

import math

import torch

from robo_rl.critic.heads import HeadConfig
from robo_rl.critic.q import QCritic
from robo_rl.ope.fqe import Fqe
from robo_rl.stats.intervals import Interval
from robo_rl.train.ope.ope_data import value_bounds, value_span


def test_values_are_held_to_what_the_data_came_to_unless_the_settings_say_otherwise():
    returns = torch.tensor([0.2, 0.0, 3.0])
    assert value_bounds(Fqe.Config(), returns) == (0.0, 3.0)
    critic = QCritic.Config(members=8, head=HeadConfig(bounds=(-1.0, 5.0)))
    assert value_bounds(Fqe.Config(critic=critic), returns) == (-1.0, 5.0)


def test_data_that_always_came_to_the_same_say_nothing_of_what_is_possible():
    assert value_bounds(Fqe.Config(), torch.ones(4)) == (-math.inf, math.inf)


def test_intervals_are_widened_though_all_returns_are_equal():
    unbounded = value_bounds(Fqe.Config(), torch.ones(4))
    assert value_span(unbounded, torch.ones(4)) == 1.0
    assert value_span(unbounded, torch.full((4,), -3.0)) == 3.0
    assert value_span(Interval(-1.0, 5.0), torch.ones(4)) == 6.0
