"""Compares two evaluations on the same start states, also where simulated worlds were lost.

An episode whose world was lost has no outcome. A comparison takes the worst outcome for the policy
under test, then the best one, and decides only what both decide. An outcome lies between failure
and success, and a return between the lowest and the highest return of the whole episodes.

Source: Manski, Partial Identification of Probability Distributions (2003), ch. 1, bounds of a mean
with missing outcomes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from robo_rl.stats.intervals import Interval
from robo_rl.stats.paired_tests import Comparison, paired_change, paired_noninferiority
from robo_rl.train.evaluation.evaluate import EvalResult, Measure

Pair = tuple[EvalResult, EvalResult]
"""Evaluations of a policy under test and of its reference, without lost worlds."""


def compare(
    new: EvalResult, ref: EvalResult, margin: float, confidence: float = 0.95
) -> Comparison:
    """Test whether ``new`` is at most ``margin`` worse than ``ref``, on the same start states.

    The difference is that of the episodes as they ended. The interval covers those of the worst and
    of the best case. For returns without a whole episode it is infinite.

    Args:
        new: Evaluation of the policy under test.
        ref: Evaluation of its reference, under the same protocol.
        margin: Fraction of episodes for success; fraction of the reference's mean return for
            returns.
        confidence: Of the interval of the difference.
    """
    test = _compare_whole((new, ref), margin, confidence)
    if not new.num_lost + ref.num_lost:
        return test
    if (cases := worst_and_best(new, ref)) is None:
        return test._replace(interval=Interval(-math.inf, math.inf))
    found = [_compare_whole(case, margin, confidence).interval for case in cases]
    interval = Interval(min(each.low for each in found), max(each.high for each in found))
    return test._replace(interval=interval)


def worst_and_best(new: EvalResult, ref: EvalResult) -> tuple[Pair, Pair] | None:
    """Return the pair with the worst outcomes of lost worlds for ``new``, and with the best.

    Returns:
        None for returns without a whole episode, which have no bounds.
    """
    if new.measure == "success":
        plain_new, plain_ref = new._replace(lost=None), ref._replace(lost=None)
        worst = plain_new, plain_ref._replace(success=ref.success | _lost(ref))
        best = plain_new._replace(success=new.success | _lost(new)), plain_ref
        return worst, best
    known = _whole_returns([new, ref])
    if not known.numel():
        return None
    low, high = known.min(), known.max()
    return (_filled(new, low), _filled(ref, high)), (_filled(new, high), _filled(ref, low))


def lowest_mean_returns(results: Sequence[EvalResult]) -> list[float]:
    """Return each mean return, with the lowest return of all whole episodes for lost worlds.

    Without a whole episode they are −∞.
    """
    known = _whole_returns(results)
    low = known.min() if known.numel() else torch.tensor(-math.inf)
    return [_filled(each, low).mean_return for each in results]


def format_comparison(test: Comparison, measure: Measure) -> str:
    """Format a comparison as one clause for a gate."""
    low, high = test.interval
    of = "" if measure == "success" else " of the mean return"
    interval = f"[{low:+.1%}, {high:+.1%}]"
    return f"difference {test.difference:+.1%} {interval}{of}, margin −{test.margin:.1%}"


def _compare_whole(pair: Pair, margin: float, confidence: float) -> Comparison:
    new, ref = pair
    if new.measure == "success":
        return paired_noninferiority(new.success.numpy(), ref.success.numpy(), margin, confidence)
    return paired_change(new.returns.numpy(), ref.returns.numpy(), margin, confidence)


def _lost(result: EvalResult) -> Tensor:
    return torch.zeros_like(result.success) if result.lost is None else result.lost


def _filled(result: EvalResult, value: Tensor) -> EvalResult:
    returns = torch.where(_lost(result), value.to(result.returns.dtype), result.returns)
    return result._replace(returns=returns, lost=None)


def _whole_returns(results: Sequence[EvalResult]) -> Tensor:
    return torch.cat([each.returns[~_lost(each)] for each in results])
