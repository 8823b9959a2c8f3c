"""What counts as better, as worse, and as not to be told."""

from __future__ import annotations

import pytest
import torch

from robo_rl.ope.policy_comparison import OpeAnswer, clip_interval, compare_estimates
from robo_rl.stats.intervals import Interval

SPREAD = torch.linspace(-1.0, 1.0, 9)


@pytest.mark.parametrize(
    ("shift", "margin", "answer"),
    [
        (3.0, 0.0, OpeAnswer.BETTER),
        (3.0, 2.0, OpeAnswer.CANNOT_TELL),
        (0.5, 0.0, OpeAnswer.CANNOT_TELL),
        (-0.5, 0.0, OpeAnswer.CANNOT_TELL),
        (-3.0, 0.0, OpeAnswer.WORSE),
    ],
)
def test_only_a_whole_interval_beyond_the_margin_counts(
    shift: float, margin: float, answer: OpeAnswer
):
    found = compare_estimates(SPREAD + shift, torch.zeros(9), margin)
    assert found.answer is answer
    assert found.interval.low < shift < found.interval.high
    assert str(found).startswith(answer.value)


def test_what_both_have_in_common_does_not_blur_the_difference():
    common = 100.0 * torch.randn(9, generator=torch.Generator().manual_seed(0))
    assert compare_estimates(common + 1.0 + 0.1 * SPREAD, common).answer is OpeAnswer.BETTER


@pytest.mark.parametrize(
    ("found", "left"),
    [((0.2, 0.4), (0.2, 0.4)), ((-0.3, 1.7), (0.0, 1.0)), ((1.1, 1.3), (1.0, 1.0))],
)
def test_nothing_is_said_beyond_what_is_possible(
    found: tuple[float, float], left: tuple[float, float]
):
    assert clip_interval(Interval(*found), Interval(0.0, 1.0)) == left
