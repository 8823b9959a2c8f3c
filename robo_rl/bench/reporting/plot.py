"""Draws learning curves of several methods in one figure, as a stand-alone SVG file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from robo_rl.bench.suite.curves import Point
from robo_rl.bench.suite.suite import ReportConfig
from robo_rl.report.charts import linear_axis
from robo_rl.report.line_figure import FigureFrame, lines_figure

_GRID = 120

Curves = Mapping[str, Sequence[Sequence[Point]]]
"""Method → the curve of every seed."""


def figure(title: str, curves: Curves, axis: str, report: ReportConfig) -> str:
    """Draw the measure against env steps or seconds, one line per method.

    A line is the mean over seeds, each pooled over a window of episodes. A finished run keeps its
    last value.

    Args:
        title: Title of the figure.
        curves: Curves of each method.
        axis: ``env_steps`` or ``seconds``.
        report: Measure and window.
    """
    ends = [getattr(points[-1], axis) for seeds in curves.values() for points in seeds if points]
    end = float(max(ends, default=1.0))
    x_axis = linear_axis(0.0, end, tight=True)
    lines = {name: mean_curve(seeds, axis, report, end) for name, seeds in curves.items()}
    y_axis = report.score_measure.axis([y for line in lines.values() for _, y in line])
    name = axis.replace("_", " ")
    return lines_figure(
        FigureFrame(title, name, x_axis, y_axis, report.score_measure.is_rate), lines
    )


def mean_curve(
    seeds: Sequence[Sequence[Point]], axis: str, report: ReportConfig, end: float
) -> list[tuple[float, float]]:
    """Return the mean curve over seeds, from where all have a value; empty without values.

    A run that ended before its first full window has no curve, and is left out.
    """
    grid = np.linspace(0.0, end, _GRID)
    every = [_held(points, axis, report, grid) for points in seeds if points]
    rows = [row for row in every if not np.isnan(row).all()]
    if not rows:
        return []
    mean = np.mean(rows, axis=0)
    return [(float(x), float(y)) for x, y in zip(grid, mean, strict=True) if not math.isnan(y)]


def _held(points: Sequence[Point], axis: str, report: ReportConfig, grid: np.ndarray) -> np.ndarray:
    """Return the latest value at each grid point; NaN before the first."""
    places = np.array([getattr(point, axis) for point in points], dtype=np.float64)
    values = np.array([math.nan, *report.score_measure.pooled_curve(points, report.window)])
    return values[np.searchsorted(places, grid, side="right")]
