"""Draws named lines in one figure, as a stand-alone SVG file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from robo_rl.report.charts import ChartAxis
from robo_rl.report.formatting import format_short
from robo_rl.report.html import Html, el

_WIDTH, _HEIGHT = 760, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 200, 28, 36
_COLOURS = (
    "#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951",
    "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e", "#9498a0",
)  # fmt: skip
_DASHES = (None, "7 3", "2 3", "9 3 2 3", "1 4")
_LEGEND_ROW = 18


class FigureFrame(NamedTuple):
    """Title and axes of a figure; the vertical axis is in per cent if ``percent``."""

    title: str
    x_name: str
    x: ChartAxis
    y: ChartAxis
    percent: bool = False


def lines_figure(frame: FigureFrame, lines: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Return the SVG of named lines; a line without points appears only in the legend.

    Lines beyond the number of colours have a dash pattern, and a long legend makes the SVG higher.
    """
    height = max(_HEIGHT, _TOP + _LEGEND_ROW * len(lines) + _LEGEND_ROW)
    parts = [
        el("rect", width=_WIDTH, height=height, fill="white"),
        _text(_LEFT, 18, frame.title, "start", weight="600"),
        *_rules(frame),
    ]
    for index, (name, points) in enumerate(lines.items()):
        colour = _COLOURS[index % len(_COLOURS)]
        dash = _DASHES[index // len(_COLOURS) % len(_DASHES)]
        parts += _line(points, frame, colour, dash)
        x, y = _WIDTH - _RIGHT + 14, _TOP + 14 + _LEGEND_ROW * index
        parts.append(_rule(x, x + 16, y - 4, colour, 3, dash))
        parts.append(_text(x + 22, y, name, "start"))
    svg = el(
        "svg",
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_WIDTH} {height}",
        width=_WIDTH,
        height=height,
        font_family="system-ui, sans-serif",
        font_size=12,
        role="img",
        aria_label=frame.title,
    )
    return f"{svg}\n"


def _rules(frame: FigureFrame) -> Iterator[Html]:
    """Return grid lines, ticks and axis names."""
    for tick in frame.y.ticks:
        y, name = _y(frame.y, tick), f"{tick:.0%}" if frame.percent else format_short(tick)
        yield _rule(_LEFT, _WIDTH - _RIGHT, y, "#ddd", 1)
        yield _text(_LEFT - 6, y + 4, name, "end")
    for tick in frame.x.ticks:
        yield _text(_x(frame.x, tick), _HEIGHT - _BOTTOM + 16, format_short(tick), "middle")
    yield _text(_WIDTH - _RIGHT, _HEIGHT - 4, frame.x_name, "end")


def _line(
    points: Sequence[tuple[float, float]], frame: FigureFrame, colour: str, dash: str | None
) -> list[Html]:
    if not points:
        return []
    path = " ".join(f"{_x(frame.x, x):.1f},{_y(frame.y, y):.1f}" for x, y in points)
    return [
        el(
            "polyline",
            points=path,
            fill="none",
            stroke=colour,
            stroke_width=2,
            stroke_dasharray=dash,
        )
    ]


def _rule(x1: float, x2: float, y: float, colour: str, width: int, dash: str | None = None) -> Html:
    return el(
        "line",
        x1=x1,
        y1=y,
        x2=x2,
        y2=y,
        stroke=colour,
        stroke_width=width,
        stroke_dasharray=dash,
    )


def _x(axis: ChartAxis, value: float) -> float:
    return _LEFT + axis.share(value) * (_WIDTH - _LEFT - _RIGHT)


def _y(axis: ChartAxis, value: float) -> float:
    return _HEIGHT - _BOTTOM - axis.share(value) * (_HEIGHT - _TOP - _BOTTOM)


def _text(x: float, y: float, text: str, anchor: str, *, weight: str = "400") -> Html:
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text_anchor": anchor, "font_weight": weight}
    return el("text", text, **place, fill="#222")
