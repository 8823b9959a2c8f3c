"""Results on the page: success with intervals, learning curves, videos, and all numbers."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from robo_rl.report.charts import Curve, interval_bar, line_chart
from robo_rl.report.formatting import format_number, interval_of, is_share, part_of, value_of
from robo_rl.report.html import Html, el, join
from robo_rl.report.run_record import RunRecord, StageRecord

_MEDIA = {".mp4": "video/mp4", ".webm": "video/webm"}
_MAX_MEDIA_BYTES = 24 << 20


def success(run: RunRecord) -> Html | None:
    """Return each stage's success with its interval, one card per protocol."""
    groups: dict[str, list[tuple[str, Any]]] = {}
    for stage in run.stages:
        number = stage.numbers.get("success")
        if is_share(number) and interval_of(number):
            groups.setdefault(str(number.get("protocol") or ""), []).append((stage.name, number))
    measured = {protocol: rows for protocol, rows in groups.items() if protocol}
    if not measured:
        return None
    note = "Share of successful episodes with 95 % intervals. "
    note += "Only numbers under one protocol may be compared." if len(measured) > 1 else ""
    cards = [_interval_card(protocol, rows) for protocol, rows in measured.items()]
    return join(el("h2", "Success"), el("p", note, cls="note"), *cards)


def _interval_card(protocol: str, rows: list[tuple[str, Any]]) -> Html:
    lines: list[Html] = []
    for name, number in rows:
        low, high, value = number["low"], number["high"], number["value"]
        text = join(el("strong", f"{value:.1%}"), f" [{low:.1%}, {high:.1%}]")
        text = join(text, f" n = {number['n']}")
        bar, value_cell = interval_bar(value, low, high), el("div", text, cls="value")
        lines.append(el("div", el("div", name), bar, value_cell, cls="row"))
    scale = el("div", *(el("span", f"{x} %") for x in (0, 25, 50, 75, 100)), cls="scale")
    lines.append(el("div", el("div"), scale, el("div"), cls="row"))
    label = el("p", "protocol ", el("code", protocol), cls="note")
    return el("div", label, el("div", *lines, cls="intervals"), cls="card")


def curves(run: RunRecord) -> Html | None:
    """Return the figures that the stages' reports request."""
    figures: list[Html] = []
    for stage in run.stages:
        for name, (x_name, points) in stage.curves().items():
            percent = "success" in name and all(0.0 <= y <= 1.0 for _, y in points)
            title = f"{stage.name}: {name.replace('_', ' ')}"
            chart = line_chart(Curve(title, x_name.replace("_", " "), points, percent))
            figures.append(el("figure", el("h3", title), chart, cls="card"))
    if not figures:
        return None
    note = "Every logged value, and in bold its running mean. In training, policies explore."
    return join(el("h2", "Learning"), el("p", note, cls="note"), el("div", *figures, cls="grid"))


def videos(run: RunRecord) -> Html | None:
    """Return the videos of all stages side by side."""
    figures = [
        _video(stage, path)
        for stage in run.stages
        for path in stage.files(*_MEDIA)
        if path.stat().st_size <= _MAX_MEDIA_BYTES
    ]
    if not figures:
        return None
    note = "The same start states in each; a frame turns green with success and red without."
    return join(el("h2", "Rollouts"), el("p", note, cls="note"), el("div", *figures, cls="grid"))


def _video(stage: StageRecord, path: Path) -> Html:
    data = base64.b64encode(path.read_bytes()).decode()
    source = f"data:{_MEDIA[path.suffix]};base64,{data}"
    player = el(
        "video", src=source, controls=True, autoplay=True, loop=True, muted=True, playsinline=True
    )
    number = stage.numbers.get("success")
    rate = f", success {number['value']:.1%}" if is_share(number) else ""
    return el("figure", player, el("figcaption", el("strong", stage.name), rate), cls="card")


def numbers(run: RunRecord) -> Html | None:
    """Return a table of all numbers in the stages' reports."""
    rows = [
        el(
            "tr",
            el("td", stage.name if first == name else ""),
            el("td", name.replace("_", " ")),
            *_number_cells(number),
        )
        for stage in run.stages
        for first in [next(iter(stage.numbers), "")]
        for name, number in stage.numbers.items()
    ]
    if not rows:
        return None
    titles = ("stage", "quantity", "value", "95 % interval", "n", "protocol")
    head = el("tr", *(el("th", t, cls="number" if t in titles[2:5] else "") for t in titles))
    table = el("div", el("table", head, *rows), cls="wide")
    return join(el("h2", "All numbers"), el("div", table, cls="card"))


def _number_cells(number: Any) -> Iterator[Html]:
    value, ends = value_of(number), interval_of(number)
    interval = " – ".join(format_number(end, number) for end in ends or ())
    text = str(number) if value is None else format_number(value, number)
    yield el("td", text, cls="number breakable" if value is None else "number")
    yield el("td", interval, cls="number")
    yield el("td", part_of(number, "n") or "", cls="number")
    yield el("td", el("code", part_of(number, "protocol") or ""))
