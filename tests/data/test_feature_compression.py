"""Features near the data are themselves, and those far away stay apart."""

from __future__ import annotations

import math

import pytest
import torch

from robo_rl.data.feature_compression import FEATURE_LIMIT, compress


def test_features_are_themselves_within_the_limit_and_stay_apart_beyond_it():
    x = torch.linspace(-200.0, 200.0, 4001, dtype=torch.float64)
    y = compress(x)
    assert torch.equal(y[x.abs() <= FEATURE_LIMIT], x[x.abs() <= FEATURE_LIMIT])
    assert (y.diff() > 0).all()
    assert (y.diff() <= x.diff() + 1e-9).all()
    assert torch.allclose(y, -y.flip(0))
    assert float(compress(torch.tensor(FEATURE_LIMIT + math.e - 1.0))) == pytest.approx(4.0)
    assert float(y.max()) < 9.0
