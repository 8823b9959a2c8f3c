"""Header of the page: the run, its stages, and waived or failed gates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from robo_rl.bundle.bundle import Bundle
from robo_rl.core.errors import BundleError
from robo_rl.report.formatting import (
    format_duration,
    format_number,
    format_plain,
    format_short,
    interval_of,
    is_share,
    part_of,
    value_of,
)
from robo_rl.report.html import Html, el, join
from robo_rl.report.run_record import RunRecord, StageRecord

_MARKS = {"passed": "✓", "waived": "!", "failed": "✗", "cannot tell": "?"}
_NO_FACTS = {
    "name",
    "directory",
    "report",
    "bundle",
}  # the name is the heading; paths depend on the machine


def header(name: str, run: RunRecord, summary: Mapping[str, Any]) -> Html:
    """Return the heading with name and facts of the run."""
    seconds = sum(float(stage.report.get("seconds") or 0) for stage in run.stages)
    steps = [stage.numbers.get("env_steps") for stage in run.stages]
    total = sum(value for value in steps if isinstance(value, (int, float)))
    facts = [f"{len(run.stages)} of {len(run.stages) + len(run.pending_stages)} stages"]
    facts += [format_duration(seconds)] if seconds else []
    facts += [f"{format_short(total)} env steps in all stages"] if total else []
    facts += [f"seed {run.info['seed']}"] if "seed" in run.info else []
    facts += [
        f"{key.replace('_', ' ')} {format_plain(value)}"
        for key, value in summary.items()
        if isinstance(value, (int, float, str)) and key not in _NO_FACTS
    ]
    return el("header", el("h1", name), el("p", " · ".join(facts), cls="lead"))


def stage_timeline(run: RunRecord) -> Html:
    """Return the stages in order, with status, success, time and gate."""
    stops = [_stop(stage) for stage in run.stages]
    for name in run.pending_stages:
        pill = el("span", "to come", cls="pill")
        stops.append(el("li", el("div", name, pill, cls="step"), cls="card to-come"))
    return el("ol", *stops, cls="road")


def _stop(stage: StageRecord) -> Html:
    status = str(stage.report.get("status", "passed"))
    cls = status.replace(" ", "-")
    pill = el("span", f"{_MARKS.get(status, '')} {status}", cls=f"pill {cls}")
    gate = None
    if stage.gate:
        text = f"{stage.gate.get('name')}: {stage.gate.get('detail', '')}"
        gate = join(el("div", cls="gap"), el("div", text, cls="small gate"))
    return el(
        "li",
        el("div", stage.name, pill, cls="step"),
        *_headline(stage),
        el("div", format_duration(float(stage.report.get("seconds") or 0)), cls="small"),
        gate,
        *_earlier(stage),
        cls=f"card {cls}",
    )


def _earlier(stage: StageRecord) -> Iterator[Html]:
    """Return the gate results under other evaluation settings."""
    for before in stage.earlier_gate:
        of = f"{before['eval'].get('episodes')} episodes from seed {before['eval'].get('seed')}"
        text = f"earlier, of {of}: {before['gate'].get('detail', '')}"
        yield el("div", text, cls="small gate")


def _headline(stage: StageRecord) -> Iterator[Html]:
    """Return the stage's success, else its first fraction, else its first number."""
    numbers = {name: value for name, value in stage.numbers.items() if value_of(value) is not None}
    for name in sorted(numbers, key=lambda name: (name != "success", not is_share(numbers[name]))):
        number, n = numbers[name], part_of(numbers[name], "n")
        label = name.replace("_", " ")
        if ends := interval_of(number):
            label += f" [{format_number(ends[0], number)}, {format_number(ends[1], number)}]"
        yield el("div", format_number(value_of(number) or 0.0, number), cls="big")
        yield el("div", label if n is None else f"{label}, n = {n}", cls="small")
        return


def alerts(run: RunRecord, bundle: Bundle | BundleError | None) -> Iterator[Html]:
    """Return an alert for each stage that did not pass and for a bundle that does not load."""
    for stage in run.stages:
        if (status := stage.report.get("status")) in ("waived", "failed", "cannot tell"):
            gate, waiver = stage.gate, stage.gate.get("waiver")
            said = "cannot be told yet" if status == "cannot tell" else "not passed"
            text = f" gate “{gate.get('name')}” {said} ({gate.get('detail')})"
            reason = f"; waived: {waiver}" if waiver else ""
            cls = "alert failed" if status == "failed" else "alert"
            yield el("div", el("strong", f"{stage.name}:"), text + reason, cls=cls)
    if isinstance(bundle, BundleError):
        yield el("div", el("strong", "bundle: "), str(bundle), cls="alert failed")
