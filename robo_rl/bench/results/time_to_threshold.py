"""Times of runs to a success rate, and their ratios, as censored values.

A run that ends below the rate is censored: its time is a lower bound. A run above the rate in its
first full window has an upper bound. So has a run with an ``eval`` curve that started above the
rate, whatever happened later, and a run that its success ended before a window was above the rate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from robo_rl.bench.results.cell_record import CellRecord, NumberRecord
from robo_rl.bench.results.scores import mean, score_before, stopped_early
from robo_rl.bench.suite.curves import first_reaching
from robo_rl.bench.suite.suite import CellKey, ReportConfig, TimeRatioConfig
from robo_rl.stats.across_runs import student_interval

AXES = ("env_steps", "seconds")


class TimeToThreshold(NamedTuple):
    """Time at which a run reached a rate, or at which it ended without reaching it.

    Args:
        value: Env steps or seconds, or the ratio of two runs.
        censored: Whether the run ended without reaching the rate; the value is a lower bound.
        reached_at_start: Whether it reached the rate by the first full window, or before the time
            at which its success ended it; the value is an upper bound.
    """

    value: float
    censored: bool = False
    reached_at_start: bool = False

    @property
    def low(self) -> float:
        """Lower bound."""
        return 0.0 if self.reached_at_start else self.value

    @property
    def high(self) -> float:
        """Upper bound."""
        return math.inf if self.censored else self.value


def time_to_threshold(
    kept: CellRecord, rate: float, axis: str, report: ReportConfig
) -> TimeToThreshold | None:
    """Return when a run's pooled success rate reached ``rate``; None without a curve.

    A run that never reached it counts with the time of its end, which may be after the last
    evaluation.
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
        end = max(float(getattr(last, axis)) for last in (points[-1], *kept.points()[-1:])) + lead
        ended = _ended_there(kept, rate, report)
        return TimeToThreshold(end, censored=not ended, reached_at_start=ended)
    return TimeToThreshold(float(getattr(point, axis)) + lead, reached_at_start=point is first)


def _began_there(kept: CellRecord, rate: float, report: ReportConfig) -> bool:
    """Return whether the initial policy had at least this rate, over a window of episodes.

    Exploration changes the success rate, so a training curve has no such start.
    """
    if report.curve != "eval" or report.stage not in kept.stages:
        return False
    began = kept.stages[report.stage].numbers.get("success_before")
    if not isinstance(began, NumberRecord) or began.value is None or began.n is None:
        return False
    return began.n >= report.window and began.value >= rate


def _ended_there(kept: CellRecord, rate: float, report: ReportConfig) -> bool:
    """Return whether a run stopped early by its success, which its last window does not show.

    As for ``_began_there``, success without exploration says nothing of a training curve.
    """
    if report.curve != "eval" or report.stage not in kept.stages:
        return False
    if not stopped_early(kept, report):
        return False
    ended = kept.stages[report.stage].numbers.get("success")
    if not isinstance(ended, NumberRecord) or ended.value is None or ended.n is None:
        return False
    return ended.n >= report.window and ended.value >= rate


def _lead(kept: CellRecord, report: ReportConfig) -> float:
    """Return the seconds of the stages that count besides the curve."""
    return sum(kept.stages[label].seconds for label in report.prior_stages if label in kept.stages)


def median_times(report: ReportConfig, kept: Sequence[CellRecord]) -> dict[str, Any]:
    """Return ``env_steps`` and ``seconds``: percentage → median time (see ``median_time``)."""
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
    """Return the median time; if it depends on censored runs, its lower bound.

    Returns:
        ``median`` (None without runs), ``at_least`` and ``at_most``: whether it is only a lower or
        an upper bound, ``reached`` and ``of``: numbers of runs.
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
    """Return the time ratio of the slow to the fast method, over pairs of one task and seed.

    If times are bounds, the ratio is a bound too: the lower bound, or the upper one if the lower is
    0. A ratio without information is at least 0.

    Returns:
        ``median``, ``at_least`` and ``at_most``, and the ``pairs`` with their own. ``mean``,
        ``low`` and ``high`` are the geometric mean with Student's 95 % interval on the logarithms
        (pairs, tasks). They are None for one pair a task, for unequally many, or if a fast run has
        no exact time. If a slow run ended before the rate (``mean_at_least``), all three are of
        times restricted to the budget, and the whole times have a larger mean. ``before`` holds
        the mean initial scores of the slow and the fast method.
    """
    restricted, pairs = True, list[dict[str, Any]]()
    values: list[TimeToThreshold] = []
    by_task: dict[str, list[TimeToThreshold]] = {}
    starts: list[tuple[float | None, float | None]] = []
    clock = report.model_copy(
        update={"prior_stages": tuple(dict.fromkeys((*report.prior_stages, *which.prior_stages)))}
    )
    for key, slow in kept.items():
        fast = kept.get(key._replace(method=which.fast))
        if key.method != which.slow or fast is None:
            continue
        long, short = (
            time_to_threshold(each, which.threshold, which.axis, clock) for each in (slow, fast)
        )
        if long is not None and short is not None:
            values.append(_quotient(long, short))
            restricted &= not short.reached_at_start
            by_task.setdefault(key.task, []).append(values[-1])
            pairs.append({"task": key.task, "seed": key.seed, **_pair(long, short, values[-1])})
            starts.append((score_before(slow, report), score_before(fast, report)))
    found = median_time(values)
    begun = {"slow": mean(s for s, _ in starts), "fast": mean(f for _, f in starts)}
    bounds = ("median", "at_least", "at_most")
    told = {name: found[name] for name in bounds}
    told |= _geometric(list(by_task.values()) if restricted else [])
    return told | {"pairs": pairs, "before": begun}


def _geometric(by_task: Sequence[Sequence[TimeToThreshold]]) -> dict[str, float | None]:
    """Return geometric mean and interval, if every ratio is known or a lower bound above 0.

    Tasks differ in their mean ratio and in its spread. They are therefore columns, with equally
    many pairs each; otherwise there is no interval. A slow run that its budget ended counts with
    its end, as in the restricted mean survival time (Royston and Parmar 2013, doi
    10.1186/1471-2288-13-152).
    """
    whole = len({len(ratios) for ratios in by_task}) == 1 and len(by_task[0]) > 1
    every = [ratio for ratios in by_task for ratio in ratios]
    bound = any(ratio.censored for ratio in every)
    if not whole or any(ratio.reached_at_start or not ratio.value for ratio in every):
        return {"mean": None, "low": None, "high": None, "mean_at_least": False}
    logs = np.log([[each.value for each in ratios] for ratios in by_task]).T
    low, high = student_interval(logs)
    ends = {"low": math.exp(low), "high": math.exp(high), "mean_at_least": bound}
    return {"mean": math.exp(logs.mean()), **ends}


def _quotient(slow: TimeToThreshold, fast: TimeToThreshold) -> TimeToThreshold:
    """Return the bounds of the ratio of two times."""
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
