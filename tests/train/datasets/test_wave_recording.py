"""Progress of a recording that ends with a number of successes."""

from __future__ import annotations

import pytest

from robo_rl.train.datasets.wave_recording import _total


@pytest.mark.parametrize(
    ("most", "done", "good", "wanted", "total"),
    [
        (60, 0, 0, 10, 60),  # nothing is known
        (60, 4, 0, 10, 60),
        (60, 4, 4, 10, 10),
        (60, 6, 3, 10, 20),
        (60, 30, 1, 10, 60),  # the largest number ends it
        (60, 20, 10, 10, 20),
        (60, 20, 15, 0, 60),  # no end by successes
    ],
)
def test_the_total_is_what_the_share_of_successes_so_far_predicts(most, done, good, wanted, total):
    assert _total(most, done, good, wanted) == total
