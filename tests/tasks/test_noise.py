"""Correlated noise has the law that it says it has."""

from __future__ import annotations

import math

import pytest
import torch

from robo_rl_tasks.noise import OrnsteinUhlenbeckNoise


def test_is_stationary_with_unit_variance_and_its_time_constant(generator):
    noise = OrnsteinUhlenbeckNoise(20_000, 1, 0.05, 0.2, generator)
    noise.reset(torch.arange(20_000))
    first = noise.sample().clone()
    later = first
    for _ in range(4):
        later = noise.sample()
    assert later.std().item() == pytest.approx(1.0, abs=0.02)
    # Four steps of 0.05 s are one time constant of 0.2 s.
    assert (first * later).mean().item() == pytest.approx(math.exp(-1), abs=0.03)
