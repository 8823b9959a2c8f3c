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


def test_an_error_beyond_resampling_makes_both_verdicts_rarer():
    for shift in (3.0, -3.0):
        sure, unsure = (compare_estimates(SPREAD + shift, torch.zeros(9), 0.0, e) for e in (1, 2))
        assert sure.answer is (OpeAnswer.BETTER if shift > 0 else OpeAnswer.WORSE)
        assert unsure.answer is OpeAnswer.CANNOT_TELL
        assert unsure.interval.high - sure.interval.high == pytest.approx(1.0)
        assert sure.interval.low - unsure.interval.low == pytest.approx(1.0)


def test_more_episodes_do_not_shrink_an_error_beyond_resampling():
    unsure = compare_estimates(SPREAD + 3.0, torch.zeros(9), 0.0, 2.0)
    needed = unsure.episodes_needed(50)
    assert needed is not None
    reach = unsure.interval.high - 3.0 - 2.0
    assert needed == pytest.approx(50 * reach**2, abs=1.0)  # a reach of 1 decides: 3 - 2 - 1 = 0
    assert compare_estimates(SPREAD + 3.0, torch.zeros(9), 0.0, 3.5).episodes_needed(50) is None


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
