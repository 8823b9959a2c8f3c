"""How long runs take to a success rate, and how many times as long as others; some never get there.

A run that ends below the rate is censored: it would have taken longer than it was given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from robo_rl.train.bench.curve import reached
from robo_rl.train.bench.kept import Kept
from robo_rl.train.bench.scores import before, mean
from robo_rl.train.bench.suite import Key, Ratio, Reported

AXES = ("env_steps", "seconds")


class Time(NamedTuple):
    """When a run got there, or when it ended without.

    Args:
        value: Env steps or seconds.
        censored: It ended without.
    """

    value: float
    censored: bool


def time_to(kept: Kept, rate: float, axis: str, report: Reported) -> Time | None:
    """When a run's pooled success rate reached ``rate``; None where there is no curve."""
    points = kept.points(report.curve)
    if not points:
        return None
    point = reached(points, rate, report.window)
    value = float(getattr(point or points[-1], axis))
    return Time(value + (_lead(kept, report) if axis == "seconds" else 0.0), point is None)


def _lead(kept: Kept, report: Reported) -> float:
    """Seconds of the stages that count besides the curve."""
    return sum(kept.stages[label].seconds for label in report.clock if label in kept.stages)


def times(report: Reported, kept: Sequence[Kept]) -> dict[str, Any]:
    """``env_steps`` and ``seconds``: percentage → median time over runs (see ``middle``)."""
    return {
        axis: {
            f"{100 * rate:g}": middle(
                [t for each in kept if (t := time_to(each, rate, axis, report)) is not None]
            )
            for rate in report.thresholds
        }
        for axis in AXES
    }


def middle(found: Sequence[Time]) -> dict[str, Any]:
    """The median time; where it hangs on censored runs it is the least that it can be.

    Returns:
        ``median`` (None of no runs), ``at_least``: whether it is only a lower bound, ``reached``
        and ``of``: numbers of runs.
    """
    if not found:
        return {"median": None, "at_least": False, "reached": 0, "of": 0}
    least = median(time.value for time in found)
    true = median(math.inf if time.censored else time.value for time in found)
    got = sum(not time.censored for time in found)
    return {"median": least, "at_least": true != least, "reached": got, "of": len(found)}


def ratio(report: Reported, which: Ratio, kept: Mapping[Key, Kept]) -> dict[str, Any]:
    """How many times as long the slow method took, run by run of the same task and seed.

    A slow run that never got there counts with the time that it was given, as a lower bound; a
    fast one that never did counts as a ratio of 0.

    Returns:
        ``median``, ``at_least``, the ``pairs`` with their own ``at_least``, and ``before``: what
        the slow and the fast one's policies were worth at the start, means over the pairs.
    """
    pairs: list[dict[str, Any]] = []
    starts: list[tuple[float | None, float | None]] = []
    for key, slow in kept.items():
        fast = kept.get(key._replace(method=which.fast))
        if key.method != which.slow or fast is None:
            continue
        times = [time_to(each, which.success, which.of, report) for each in (slow, fast)]
        if times[0] is not None and times[1] is not None:
            pairs.append({"task": key.task, "seed": key.seed, **_pair(times[0], times[1])})
            starts.append((before(slow, report), before(fast, report)))
    values = [Time(pair["ratio"], pair["at_least"]) for pair in pairs]
    found = middle(values)
    begun = {"slow": mean(s for s, _ in starts), "fast": mean(f for _, f in starts)}
    return {k: found[k] for k in ("median", "at_least")} | {"pairs": pairs, "before": begun}


def _pair(slow: Time, fast: Time) -> dict[str, Any]:
    value = 0.0 if fast.censored else slow.value / max(fast.value, 1e-9)
    bound = slow.censored and not fast.censored
    return {"slow": slow.value, "fast": fast.value, "ratio": value, "at_least": bound}
