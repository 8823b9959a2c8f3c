"""A run's learning curves: thinned, pooled over episodes, and when they reach a success rate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

MAX_POINTS = 200


class Point(NamedTuple):
    """What happened up to a moment of training, since the point before.

    Args:
        env_steps: So far.
        seconds: Of collecting and updating so far; saving and evaluating are left out.
        episodes: How many ended.
        successes: How many of these succeeded.
        returns: Their mean return.
    """

    env_steps: int
    seconds: float
    episodes: int
    successes: int
    returns: float


def training_curve(metrics: Sequence[Mapping[str, float]], most: int = MAX_POINTS) -> list[Point]:
    """A curve out of the lines of ``metrics.jsonl``, in at most so many points.

    Neighbouring updates are put together, so that no episode is lost.
    """
    size = max(1, math.ceil(len(metrics) / most))
    seconds, points = 0.0, list[Point]()
    for start in range(0, len(metrics), size):
        rows = metrics[start : start + size]
        seconds += sum(row.get("collect_s", 0.0) + row.get("update_s", 0.0) for row in rows)
        points.append(_point(rows, seconds))
    return points


def eval_curve(metrics: Sequence[Mapping[str, float]]) -> list[Point]:
    """The curve of evaluations on the way (``train.probe``), a point each; time stands still."""
    seconds, points = 0.0, list[Point]()
    for row in metrics:
        seconds += row.get("collect_s", 0.0) + row.get("update_s", 0.0)
        if episodes := int(row.get("eval/episodes", 0)):
            good, steps = round(row["eval/success"] * episodes), int(row.get("env_steps", 0))
            points.append(Point(steps, seconds, episodes, good, row["eval/return"]))
    return points


def _point(rows: Sequence[Mapping[str, float]], seconds: float) -> Point:
    episodes = [row.get("episodes", 0.0) for row in rows]
    rates, returns = ([row.get(name, math.nan) for row in rows] for name in ("success", "return"))
    good = sum(n * rate for n, rate in zip(episodes, rates, strict=True) if n)
    steps = int(rows[-1].get("env_steps", 0))
    return Point(steps, seconds, int(sum(episodes)), round(good), _mean(returns, episodes))


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """Weighted mean of the values that are numbers; NaN where there is none."""
    pairs = [(v, w) for v, w in zip(values, weights, strict=True) if w > 0 and not math.isnan(v)]
    total = sum(weight for _, weight in pairs)
    return sum(value * weight for value, weight in pairs) / total if total else math.nan


def pooled_success(points: Sequence[Point], window: int) -> list[float]:
    """Success rate at each point, over the fewest latest points that hold ``window`` episodes.

    It is NaN as long as fewer have ended.
    """
    return [
        sum(p.successes for p in latest) / sum(p.episodes for p in latest) if latest else math.nan
        for latest in _windows(points, window)
    ]


def pooled_returns(points: Sequence[Point], window: int) -> list[float]:
    """Mean return at each point, likewise."""
    return [
        _mean([p.returns for p in latest], [float(p.episodes) for p in latest])
        for latest in _windows(points, window)
    ]


def _windows(points: Sequence[Point], window: int) -> Iterator[Sequence[Point]]:
    """The fewest latest points that hold so many episodes, none where there are fewer."""
    first, episodes = 0, 0
    for last, point in enumerate(points):
        episodes += point.episodes
        while episodes - points[first].episodes >= window:
            episodes -= points[first].episodes
            first += 1
        yield points[first : last + 1] if episodes >= window else ()


def first_reaching(points: Sequence[Point], rate: float, window: int) -> Point | None:
    """The first point at which the pooled success rate is at least ``rate``."""
    pairs = zip(points, pooled_success(points, window), strict=True)
    return next((point for point, now in pairs if now >= rate), None)
