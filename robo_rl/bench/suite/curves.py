"""Learning curves of a run: thinned, pooled over episodes, and compared with success rates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

MAX_POINTS = 200


class Point(NamedTuple):
    """A point of a curve; counts are since the previous point.

    Args:
        env_steps: Env steps so far.
        seconds: Seconds of collecting and updating so far, without saving and evaluation.
        episodes: Number of finished episodes.
        successes: Number of successful ones.
        returns: Their mean return.
    """

    env_steps: int
    seconds: float
    episodes: int
    successes: int
    returns: float


def training_curve(metrics: Sequence[Mapping[str, float]], most: int = MAX_POINTS) -> list[Point]:
    """Return the curve of ``metrics.jsonl`` in at most ``most`` points.

    Neighbouring updates are merged, so that no episode is lost.
    """
    size = max(1, math.ceil(len(metrics) / most))
    seconds, points = 0.0, list[Point]()
    for start in range(0, len(metrics), size):
        rows = metrics[start : start + size]
        seconds += sum(row.get("collect_s", 0.0) + row.get("update_s", 0.0) for row in rows)
        points.append(_point(rows, seconds))
    return points


def eval_curve(metrics: Sequence[Mapping[str, float]]) -> list[Point]:
    """Return the curve of evaluations during training; their own time does not count."""
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
    """Return the weighted mean of the values that are not NaN; NaN without any."""
    pairs = [(v, w) for v, w in zip(values, weights, strict=True) if w > 0 and not math.isnan(v)]
    total = sum(weight for _, weight in pairs)
    return sum(value * weight for value, weight in pairs) / total if total else math.nan


def pooled_success(points: Sequence[Point], window: int) -> list[float]:
    """Return the success rate at each point, over the fewest latest points with a full window.

    It is NaN while fewer than ``window`` episodes have ended.
    """
    return [
        sum(p.successes for p in latest) / sum(p.episodes for p in latest) if latest else math.nan
        for latest in _windows(points, window)
    ]


def pooled_returns(points: Sequence[Point], window: int) -> list[float]:
    """Return the mean return at each point, over the same windows as ``pooled_success``."""
    return [
        _mean([p.returns for p in latest], [float(p.episodes) for p in latest])
        for latest in _windows(points, window)
    ]


def _windows(points: Sequence[Point], window: int) -> Iterator[Sequence[Point]]:
    """Yield the fewest latest points with ``window`` episodes, empty if there are fewer."""
    first, episodes = 0, 0
    for last, point in enumerate(points):
        episodes += point.episodes
        while episodes - points[first].episodes >= window:
            episodes -= points[first].episodes
            first += 1
        yield points[first : last + 1] if episodes >= window else ()


def first_reaching(points: Sequence[Point], rate: float, window: int) -> Point | None:
    """Return the first point with a pooled success rate of at least ``rate``; None without one."""
    pairs = zip(points, pooled_success(points, window), strict=True)
    return next((point for point, now in pairs if now >= rate), None)
