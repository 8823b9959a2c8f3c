"""Bundle sections of the page: latency, parity, and the contract that a robot must meet."""

from __future__ import annotations

from collections.abc import Iterator

from robo_rl.bundle.bundle import Bundle
from robo_rl.bundle.manifest import Manifest
from robo_rl.core.spec import ActSpec, TensorSpec
from robo_rl.report.html import Html, el, join


def sections(bundle: Bundle) -> Iterator[Html]:
    """Return the sections in the page's order."""
    yield _latency(bundle.manifest)
    yield _parity(bundle.manifest)
    yield _contract(bundle.manifest)


def _latency(manifest: Manifest) -> Html:
    slowest = max(latency.p50_us for latency in manifest.latency.values())
    rows = [
        el(
            "tr",
            el("td", name),
            el("td", _microseconds(latency.p50_us), cls="number"),
            el("td", _microseconds(latency.p99_us), cls="number"),
            el("td", f"{slowest / latency.p50_us:.1f}×", cls="number"),
            el("td", el("div", style=f"width:{latency.p50_us / slowest:.1%}"), cls="bar"),
        )
        for name, latency in sorted(manifest.latency.items(), key=lambda item: -item[1].p50_us)
    ]
    calls = min(latency.calls for latency in manifest.latency.values())
    period = _microseconds(_period_us(manifest))
    note = (
        f"One query, batch 1, one thread, of at least {calls} calls; a control period is {period}."
    )
    head = _head("policy", "p50", "p99", "speed-up", "")
    return _section("Latency", note, el("table", head, *rows))


def _counted(manifest: Manifest) -> str:
    protocol = manifest.config.get("eval")
    by_return = isinstance(protocol, dict) and protocol.get("measure") == "return"
    return "the policy's median return" if by_return else "success"


def _parity(manifest: Manifest) -> Html:
    numeric, loop, graph = manifest.numeric, manifest.closed_loop, manifest.latency.get("onnx")
    found = [
        (
            f"numbers: max |Δ| over {numeric.rows} observations, of the action that differs most",
            f"{numeric.max_abs:.2g}",
            f"≤ {numeric.limit:g}",
            numeric.passed,
        ),
        (
            f"closed loop: {_counted(manifest)} in {loop.episodes} episodes",
            f"{loop.success:.1%}",
            f"{loop.low:.1%} – {loop.high:.1%}",
            loop.passed,
        ),
    ]
    if graph is not None:
        played = 1e6 * manifest.contract.execution_s
        measured, limit = _microseconds(graph.p99_us), f"≤ {_microseconds(played)}"
        found.append(("time: p99 of one query", measured, limit, graph.p99_us <= played))
    rows = [
        el(
            "tr",
            el("td", name),
            el("td", value, cls="number"),
            el("td", limit, cls="number"),
            el("td", _pill(passed), cls="number"),
        )
        for name, value, limit, passed in found
    ]
    note = "Whether the exported graph is the policy that was trained."
    return _section("Parity", note, el("table", _head("", "found", "limit", ""), *rows))


def _contract(manifest: Manifest) -> Html:
    contract = manifest.contract
    items = [(f"{name} (observed)", spec) for name, spec in contract.obs.items.items()]
    rows = [_spec_row(name, spec) for name, spec in [*items, ("act (commanded)", contract.act)]]
    head = el(
        "tr", *(el("th", title) for title in ("", "shape", "unit", "frame", "names", "limits"))
    )
    facts = (
        f"{contract.policy} for {contract.task} on {contract.robot}: "
        f"observation history {contract.obs_horizon}, chunks of {contract.horizon} actions, "
        f"{contract.exec_horizon} of them executed at {contract.act.rate_hz:g} Hz, "
        f"denoising steps {contract.num_steps}; actions are {_reference(contract.act)}."
    )
    table = el("div", el("table", head, *rows), cls="wide")
    body = el("details", el("summary", "What a robot must offer"), table)
    return _section("Contract", facts, body)


def _spec_row(name: str, spec: TensorSpec) -> Html:
    low, high = (", ".join(f"{value:.4g}" for value in ends) for ends in (spec.low, spec.high))
    limits = join(low, Html("<br>"), high) if low or high else ""
    return el(
        "tr",
        el("td", name),
        el("td", "×".join(map(str, spec.shape)) or "1"),
        el("td", spec.unit, cls="breakable"),
        el("td", spec.frame),
        el("td", ", ".join(spec.names)),
        el("td", limits),
    )


def _section(title: str, note: str, body: Html) -> Html:
    card = el("div", el("div", body, cls="wide"), cls="card")
    return join(el("h2", title), el("p", note, cls="note"), card)


def _head(first: str, *titles: str) -> Html:
    return el("tr", el("th", first), *(el("th", title, cls="number") for title in titles))


def _pill(passed: bool) -> Html:
    return el("span", "✓ holds" if passed else "✗ fails", cls=f"pill {_status(passed)}")


def _status(passed: bool) -> str:
    return "passed" if passed else "failed"


def _period_us(manifest: Manifest) -> float:
    return 1e6 / manifest.contract.act.rate_hz


def _microseconds(value: float) -> str:
    return f"{value:.0f} µs" if value < 1e4 else f"{value / 1e3:.0f} ms"


def _reference(act: ActSpec) -> str:
    """Return the reference of the actions in words; the one of most elements comes first."""
    common = max(act.references, key=act.references.count)
    others = [
        f"{act.element(index)} {word}"
        for index, word in enumerate(act.references)
        if word != common
    ]
    return common + (f", {', '.join(others)}" if others else "")
