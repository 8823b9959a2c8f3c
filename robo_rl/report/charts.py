"""Figures as inline SVG in the page's own colours, which follow a light or dark scheme."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from robo_rl.report.formatting import format_short
from robo_rl.report.html import Html, el

_WIDTH, _HEIGHT = 440, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 12, 30
_MAX_POINTS = 400
_NEIGHBOURHOODS = 20  # a running mean spans about a tenth of the curve
_LOG_FROM = 50.0  # ratio of largest to smallest value
_TINY = 1e-9


class Curve(NamedTuple):
    """Points of one figure, in order of x."""

    title: str
    x_name: str
    points: Sequence[tuple[float, float]]
    percent: bool


class ChartAxis(NamedTuple):
    """Range and ticks of an axis; the range of a logarithmic axis is in powers of ten."""

    low: float
    high: float
    ticks: Sequence[float]
    log: bool = False

    def share(self, value: float) -> float:
        """Return the position of a value in the range, from 0 to 1."""
        value = math.log10(value) if self.log else value
        return (value - self.low) / (self.high - self.low)


def line_chart(curve: Curve) -> Html:
    """Return a polyline of all points and a bold polyline of their running mean."""
    xs, ys = zip(*curve.points, strict=True)
    x_axis = linear_axis(min(xs), max(xs), tight=True)
    y_axis = _y_axis(min(ys), max(ys), percent=curve.percent)
    parts = [
        *_rules(y_axis, percent=curve.percent),
        *(
            _text(_x(x_axis, t), _HEIGHT - _BOTTOM + 15, format_short(t), "middle")
            for t in x_axis.ticks
        ),
        _text(_WIDTH - _RIGHT, _HEIGHT - 2, curve.x_name, "end"),
    ]
    for points, cls in ((curve.points, "raw"), (_smooth(curve.points), "curve")):
        places = [(_x(x_axis, x), _y(y_axis, y)) for x, y in _thin(points)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(el("polyline", points=path, cls=cls))
    if len(curve.points) == 1:
        x, y = _x(x_axis, xs[0]), _y(y_axis, ys[0])
        parts.append(el("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=3, cls="dot"))
    label = f"{curve.title} against {curve.x_name}"
    return el("svg", *parts, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img", aria_label=label)


def interval_bar(value: float, low: float, high: float) -> Html:
    """Draw a fraction in [0, 1] as a dot with its interval, over the full width."""
    marks = [_line("0%", 14, "100%", 14, "track")]
    marks += [_line(f"{x}%", 10, f"{x}%", 18, "track") for x in (0, 25, 50, 75, 100)]
    ends = f"{low:.2%}", f"{high:.2%}"
    marks.append(_line(ends[0], 14, ends[1], 14, "whisker"))
    marks += [_line(end, 9, end, 19, "whisker") for end in ends]
    marks.append(el("circle", cx=f"{value:.2%}", cy=14, r=5, cls="dot"))
    label = f"{value:.1%}, interval {low:.1%} to {high:.1%}"
    return el("svg", *marks, height=28, width="100%", role="img", aria_label=label)


def _rules(axis: ChartAxis, *, percent: bool) -> Iterator[Html]:
    for tick in axis.ticks:
        y = _y(axis, tick)
        yield _line(_LEFT, f"{y:.1f}", _WIDTH - _RIGHT, f"{y:.1f}", "rule")
        yield _text(_LEFT - 7, y + 4, f"{tick:.0%}" if percent else format_short(tick), "end")


def _x(axis: ChartAxis, value: float) -> float:
    return _LEFT + axis.share(value) * (_WIDTH - _LEFT - _RIGHT)


def _y(axis: ChartAxis, value: float) -> float:
    return _HEIGHT - _BOTTOM - axis.share(value) * (_HEIGHT - _TOP - _BOTTOM)


def _line(x1: object, y1: object, x2: object, y2: object, cls: str) -> Html:
    return el("line", x1=x1, y1=y1, x2=x2, y2=y2, cls=cls)


def _text(x: float, y: float, text: str, anchor: str) -> Html:
    return el("text", text, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor)


def _y_axis(low: float, high: float, *, percent: bool) -> ChartAxis:
    if percent:
        return ChartAxis(0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0))
    if low > 0 and high / low > _LOG_FROM:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        return ChartAxis(first, last, [10.0**i for i in range(first, last + 1)], log=True)
    return linear_axis(low, high)


def linear_axis(low: float, high: float, *, tight: bool = False) -> ChartAxis:
    """Return an axis with about four round ticks; ``tight`` keeps the range at the data."""
    if high - low <= 1e-9 * max(abs(low), abs(high), _TINY):
        pad = abs(low) if abs(low) > _TINY else 1.0
        low, high = (low, low + pad) if tight else (low - pad, low + pad)
    raw = (high - low) / 4
    size = 10.0 ** math.floor(math.log10(raw))
    step = min((m * size for m in (1, 2, 2.5, 5, 10)), key=lambda s: abs(s - raw))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = [i * step for i in range(first, last + 1)]
    if tight:
        return ChartAxis(low, high, [tick for tick in ticks if low <= tick <= high])
    return ChartAxis(first * step, last * step, ticks)


def _thin(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    stride = math.ceil(len(points) / _MAX_POINTS)
    return [*points[:-1:stride], points[-1]]


def _smooth(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the centred running mean, which has no lag."""
    half = len(points) // _NEIGHBOURHOODS
    sums = [0.0, *itertools.accumulate(y for _, y in points)]
    smooth: list[tuple[float, float]] = []
    for i, (x, _) in enumerate(points):
        first, end = max(i - half, 0), min(i + half + 1, len(points))
        smooth.append((x, (sums[end] - sums[first]) / (end - first)))
    return smooth
