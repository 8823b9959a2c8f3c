"""Learning curves of several methods in one figure, as an SVG file that stands by itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from robo_rl.train.bench.curve import Point, pooled, pooled_returns
from robo_rl.train.bench.suite import Reported
from robo_rl.train.report.charts import Axis, linear_axis
from robo_rl.train.report.markup import Html, el
from robo_rl.train.report.numbers import short

_WIDTH, _HEIGHT = 760, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 200, 28, 36
_GRID = 120
_COLOURS = (
    "#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951",
    "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e", "#9498a0",
)  # fmt: skip

Curves = Mapping[str, Sequence[Sequence[Point]]]
"""Method → the curve of every seed."""


def figure(title: str, curves: Curves, axis: str, report: Reported) -> str:
    """What is measured, in training, against env steps or seconds, one line a method.

    A line is the mean over seeds, each pooled over a window of episodes; a run that has ended
    stands where it ended.

    Args:
        title: Above it.
        curves: Of each method.
        axis: ``env_steps`` or ``seconds``.
        report: Measure and window.
    """
    ends = [getattr(points[-1], axis) for seeds in curves.values() for points in seeds if points]
    end = float(max(ends, default=1.0))
    x_axis = linear_axis(0.0, end, tight=True)
    lines = {name: mean_curve(seeds, axis, report, end) for name, seeds in curves.items()}
    y_axis = _y_axis([y for line in lines.values() for _, y in line], report)
    parts = [
        el("rect", width=_WIDTH, height=_HEIGHT, fill="white"),
        _text(_LEFT, 18, title, "start", weight="600"),
        *_frame(x_axis, y_axis, axis.replace("_", " "), percent=report.measure == "success"),
    ]
    for index, (method, line) in enumerate(lines.items()):
        colour = _COLOURS[index % len(_COLOURS)]
        parts += _line(line, x_axis, y_axis, colour)
        y = _TOP + 14 + 18 * index
        x = _WIDTH - _RIGHT + 14
        parts.append(_rule(x, x + 16, y - 4, colour, 3))
        parts.append(_text(x + 22, y, method, "start"))
    svg = el(
        "svg",
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        width=_WIDTH,
        height=_HEIGHT,
        font_family="system-ui, sans-serif",
        font_size=12,
        role="img",
        aria_label=title,
    )
    return f"{svg}\n"


def mean_curve(
    seeds: Sequence[Sequence[Point]], axis: str, report: Reported, end: float
) -> list[tuple[float, float]]:
    """Points of the mean over seeds, from where all have a value; empty where none does."""
    grid = np.linspace(0.0, end, _GRID)
    rows = [_held(points, axis, report, grid) for points in seeds if points]
    if not rows:
        return []
    mean = np.mean(rows, axis=0)
    return [(float(x), float(y)) for x, y in zip(grid, mean, strict=True) if not math.isnan(y)]


def _held(points: Sequence[Point], axis: str, report: Reported, grid: np.ndarray) -> np.ndarray:
    """The value last reached at each place of the grid; NaN before there is one."""
    places = np.array([getattr(point, axis) for point in points], dtype=np.float64)
    pool = pooled if report.measure == "success" else pooled_returns
    values = np.array([math.nan, *pool(points, report.window)])
    return values[np.searchsorted(places, grid, side="right")]


def _y_axis(values: Sequence[float], report: Reported) -> Axis:
    if report.measure == "success":
        return Axis(0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0))
    return linear_axis(min(values, default=0.0), max(values, default=1.0))


def _frame(x_axis: Axis, y_axis: Axis, name: str, *, percent: bool) -> Iterator[Html]:
    """Rules, ticks and names."""
    for tick in y_axis.ticks:
        y = _y(y_axis, tick)
        yield _rule(_LEFT, _WIDTH - _RIGHT, y, "#ddd", 1)
        yield _text(_LEFT - 6, y + 4, f"{tick:.0%}" if percent else short(tick), "end")
    for tick in x_axis.ticks:
        yield _text(_x(x_axis, tick), _HEIGHT - _BOTTOM + 16, short(tick), "middle")
    yield _text(_WIDTH - _RIGHT, _HEIGHT - 4, name, "end")


def _line(
    curve: Sequence[tuple[float, float]], x_axis: Axis, y_axis: Axis, colour: str
) -> list[Html]:
    if not curve:
        return []
    path = " ".join(f"{_x(x_axis, x):.1f},{_y(y_axis, y):.1f}" for x, y in curve)
    return [el("polyline", points=path, fill="none", stroke=colour, stroke_width=2)]


def _rule(x1: float, x2: float, y: float, colour: str, width: int) -> Html:
    return el("line", x1=x1, y1=y, x2=x2, y2=y, stroke=colour, stroke_width=width)


def _x(axis: Axis, value: float) -> float:
    return _LEFT + axis.share(value) * (_WIDTH - _LEFT - _RIGHT)


def _y(axis: Axis, value: float) -> float:
    return _HEIGHT - _BOTTOM - axis.share(value) * (_HEIGHT - _TOP - _BOTTOM)


def _text(x: float, y: float, text: str, anchor: str, *, weight: str = "400") -> Html:
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text_anchor": anchor, "font_weight": weight}
    return el("text", text, **place, fill="#222")
