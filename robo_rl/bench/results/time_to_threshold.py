"""How long runs take to a success rate, and how many times as long as others; some never get there.

A run that ends below the rate is censored: it would have taken longer than it was given. One that
is above it in its first full window was there before anybody could tell: it took no longer than
that. Nor did one that began above it, if looks without exploration are what counts, whatever became
of it on the way. So what is known of a time, or of a ratio of two, are bounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from robo_rl.bench.results.cell_record import CellRecord, NumberRecord
from robo_rl.bench.results.scores import mean, score_before
from robo_rl.bench.suite.curves import first_reaching
from robo_rl.bench.suite.suite import CellKey, ReportConfig, TimeRatioConfig
from robo_rl.stats.across_runs import student_interval

AXES = ("env_steps", "seconds")


class TimeToThreshold(NamedTuple):
    """When a run got there, or when it ended without.

    Args:
        value: Env steps or seconds; a ratio of them, of two runs.
        censored: It ended without: the value is a lower bound.
        reached_at_start: It was there in the first full window or before: the value is an upper bound.
    """

    value: float
    censored: bool = False
    reached_at_start: bool = False

    @property
    def low(self) -> float:
        """The least that it can be."""
        return 0.0 if self.reached_at_start else self.value

    @property
    def high(self) -> float:
        """The most that it can be."""
        return math.inf if self.censored else self.value


def time_to_threshold(
    kept: CellRecord, rate: float, axis: str, report: ReportConfig
) -> TimeToThreshold | None:
    """When a run's pooled success rate reached ``rate``; None where there is no curve.

    A run that never did counts with the time at which it ended, of which no evaluation on the way
    may tell.
    """
    points = kept.points(report.curve)
    if not points:
        return None
    lead = _lead(kept, report) if axis == "seconds" else 0.0
    first = first_reaching(points, 0.0, report.window)
    if _began_there(kept, rate, report):
        return TimeToThreshold(
            float(getattr(first or points[-1], axis)) + lead, reached_at_start=True
        )
    point = first_reaching(points, rate, report.window)
    if point is None:
        end = max(float(getattr(last, axis)) for last in (points[-1], *kept.points()[-1:]))
        return TimeToThreshold(end + lead, censored=True)
    return TimeToThreshold(float(getattr(point, axis)) + lead, reached_at_start=point is first)


def _began_there(kept: CellRecord, rate: float, report: ReportConfig) -> bool:
    """Whether the policy that training began with was judged so good, in a window of episodes.

    What it explores with is another matter, so a curve of training episodes has no such start.
    """
    if report.curve != "eval" or report.stage not in kept.stages:
        return False
    began = kept.stages[report.stage].numbers.get("success_before")
    if not isinstance(began, NumberRecord) or began.value is None or began.n is None:
        return False
    return began.n >= report.window and began.value >= rate


def _lead(kept: CellRecord, report: ReportConfig) -> float:
    """Seconds of the stages that count besides the curve."""
    return sum(kept.stages[label].seconds for label in report.prior_stages if label in kept.stages)


def median_times(report: ReportConfig, kept: Sequence[CellRecord]) -> dict[str, Any]:
    """``env_steps`` and ``seconds``: percentage → median time over runs (see ``middle``)."""
    return {
        axis: {
            f"{100 * rate:g}": median_time(
                [
                    t
                    for each in kept
                    if (t := time_to_threshold(each, rate, axis, report)) is not None
                ]
            )
            for rate in report.thresholds
        }
        for axis in AXES
    }


def median_time(found: Sequence[TimeToThreshold]) -> dict[str, Any]:
    """The median time; where it hangs on censored runs it is the least that it can be.

    Returns:
        ``median`` (None of no runs), ``at_least`` and ``at_most``: whether it is only a lower or an
        upper bound, ``reached`` and ``of``: numbers of runs.
    """
    got = {"reached": sum(not time.censored for time in found), "of": len(found)}
    if not found:
        return {"median": None, "at_least": False, "at_most": False, **got}
    value, low, high = (
        median(getattr(time, name) for time in found) for name in ("value", "low", "high")
    )
    at_least = high != value
    at_most = low != value and not at_least
    return {"median": low if at_least else value, "at_least": at_least, "at_most": at_most, **got}


def time_ratio(
    report: ReportConfig, which: TimeRatioConfig, kept: Mapping[CellKey, CellRecord]
) -> dict[str, Any]:
    """How many times as long the slow method took, run by run of the same task and seed.

    Of runs whose times are bounds the ratio is one, too: the least that it can be, or where that is
    nothing the most; where nothing is known, it is at least 0.

    Returns:
        ``median``, ``at_least`` and ``at_most``, the ``pairs`` with their own, ``mean``, ``low``
        and ``high``: their geometric mean with Student's interval of 95 % on the logarithms, None
        of one pair or where any is but a bound, and ``before``: what the slow and the fast one's
        policies were worth at the start, means over the pairs.
    """
    pairs: list[dict[str, Any]] = []
    values: list[TimeToThreshold] = []
    starts: list[tuple[float | None, float | None]] = []
    for key, slow in kept.items():
        fast = kept.get(key._replace(method=which.fast))
        if key.method != which.slow or fast is None:
            continue
        long, short = (
            time_to_threshold(each, which.threshold, which.axis, report) for each in (slow, fast)
        )
        if long is not None and short is not None:
            values.append(_quotient(long, short))
            pairs.append({"task": key.task, "seed": key.seed, **_pair(long, short, values[-1])})
            starts.append((score_before(slow, report), score_before(fast, report)))
    found = median_time(values)
    begun = {"slow": mean(s for s, _ in starts), "fast": mean(f for _, f in starts)}
    bounds = ("median", "at_least", "at_most")
    told = {name: found[name] for name in bounds} | _geometric(values)
    return told | {"pairs": pairs, "before": begun}


def _geometric(ratios: Sequence[TimeToThreshold]) -> dict[str, float | None]:
    """Geometric mean and its interval, where every ratio is known."""
    if len(ratios) < 2 or any(each.low != each.high or not each.value for each in ratios):
        return {"mean": None, "low": None, "high": None}
    logs = [math.log(each.value) for each in ratios]
    low, high = student_interval(logs)
    return {"mean": math.exp(sum(logs) / len(logs)), "low": math.exp(low), "high": math.exp(high)}


def _quotient(slow: TimeToThreshold, fast: TimeToThreshold) -> TimeToThreshold:
    """What is known of the ratio of two times."""
    low = 0.0 if math.isinf(fast.high) else slow.low / max(fast.high, 1e-9)
    if slow.censored or fast.reached_at_start:
        return TimeToThreshold(low, censored=True)
    high = slow.high / max(fast.low, 1e-9)
    return TimeToThreshold(high, reached_at_start=low != high)


def _pair(
    slow: TimeToThreshold, fast: TimeToThreshold, quotient: TimeToThreshold
) -> dict[str, Any]:
    bounds = {"at_least": quotient.censored, "at_most": quotient.reached_at_start}
    return {"slow": slow.value, "fast": fast.value, "ratio": quotient.value, **bounds}
