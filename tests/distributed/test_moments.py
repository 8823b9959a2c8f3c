"""Moments of rows, and of two sets of rows together."""

from __future__ import annotations

import torch

from robo_rl.distributed.moments import Moments, merged


def test_moments_of_two_parts_merge_to_those_of_the_whole():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(20, 3, dtype=torch.float64, generator=generator)
    found = merged(Moments.of(rows[:7]), Moments.of(rows[7:]))
    for one, other in zip(found, Moments.of(rows), strict=True):
        torch.testing.assert_close(torch.as_tensor(one), torch.as_tensor(other))


def test_numbers_merge_by_hand():
    """{0, 2} and {5}: mean 7/3, Σ of squared deviations 49/9 + 1/9 + 64/9."""
    size, mean, sq_dev = merged((2, 1.0, 2.0), (1, 5.0, 0.0))
    assert size == 3
    assert abs(mean - 7 / 3) < 1e-12
    assert abs(sq_dev - 114 / 9) < 1e-12
