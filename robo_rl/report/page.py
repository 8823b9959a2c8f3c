"""Assembles the report page, with configuration and provenance at its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

from robo_rl.bundle.bundle import Bundle
from robo_rl.core.errors import BundleError
from robo_rl.report import bundle as deployed
from robo_rl.report import header as road
from robo_rl.report import results
from robo_rl.report.html import Html, el, join, void
from robo_rl.report.run_record import RunRecord


def page(run: RunRecord, summary: Mapping[str, Any]) -> str:
    """Return the page as an HTML document; it is a pure function of the run."""
    name = summary.get("name") or run.info.get("name") or "run"
    style = Html(resources.files("robo_rl.report").joinpath("page.css").read_text())
    head = el(
        "head",
        void("meta", charset="utf-8"),
        void("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("title", f"{name} · robo-rl"),
        el("style", style),
    )
    bundle = run.bundle()
    parts = (
        road.header(str(name), run, summary),
        road.stage_timeline(run),
        *road.alerts(run, bundle),
        results.success(run),
        results.curves(run),
        results.videos(run),
        *(deployed.sections(bundle) if isinstance(bundle, Bundle) else ()),
        results.numbers(run),
        _config(run),
        _provenance(run, bundle),
    )
    return "<!doctype html>\n" + el("html", head, el("body", el("main", *parts)), lang="en") + "\n"


def _config(run: RunRecord) -> Html | None:
    if not run.config:
        return None
    text = el("details", el("summary", "Resolved configuration"), el("pre", run.config))
    return join(el("h2", "Configuration"), el("div", text, cls="card"))


def _provenance(run: RunRecord, bundle: Bundle | BundleError | None) -> Html:
    facts = dict(_flat(run.info))
    for stage in run.stages:
        if digest := stage.report.get("digest"):
            facts[f"{stage.name} digest"] = digest
    facts |= _world(run)
    if isinstance(bundle, Bundle):
        facts["dataset"] = bundle.manifest.dataset
        facts["normaliser"] = bundle.manifest.normalizer
        facts["bundle"] = bundle.digest
    rows = [
        el("tr", el("td", key), el("td", el("code", value), cls="breakable"))
        for key, value in facts.items()
    ]
    return join(el("h2", "Provenance"), el("div", el("table", *rows), cls="card"))


def _world(run: RunRecord) -> dict[str, Any]:
    """Return the parts of the world that the newest stage recorded."""
    reports = [stage.report for stage in run.stages]
    found = reports[-1].get("world") if reports else None
    if not isinstance(found, Mapping) or not found:
        return {"world": "not recorded"}
    return {f"world, {part}": value for part, value in found.items()}


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key} ")
        else:
            yield f"{prefix}{key}", value
