"""The page stands on its own, escapes everything, and never fails where the run did not."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from robo_rl.report import write_report
from robo_rl.report.charts import Curve, interval_bar, line_chart
from robo_rl.report.formatting import format_short
from robo_rl.report.html import el
from robo_rl.stats.intervals import wilson

EVIL = "<script>alert('x')</script>&\"'"
VOID = {"meta", "br"}


class Document(HTMLParser):
    """Checks that elements nest, and collects tags with attributes, and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)


def share(successes: int, n: int, protocol: str) -> dict[str, Any]:
    low, high = wilson(successes, n)
    rate = {"value": successes / n, "low": low, "high": high, "n": n, "unit": "1"}
    return {**rate, "protocol": protocol}


def add_stage(run: Path, number: int, name: str, **report: Any) -> Path:
    directory = run / f"{number:02d}-{name}"
    directory.mkdir(parents=True)
    body = {"stage": name, "status": "passed", "seconds": 1.0, "numbers": {}, "gate": None}
    (directory / "report.json").write_text(json.dumps({**body, **report}))
    return directory


@pytest.fixture
def run(tmp_path: Path) -> Path:
    run = tmp_path / "run"
    bc = add_stage(
        run,
        0,
        "bc",
        numbers={"success": share(122, 200, "abc123"), "loss": 0.04},
        files={"video": "rollout.mp4"},
    )
    (bc / "rollout.mp4").write_bytes(b"moving pictures")
    online = add_stage(
        run,
        1,
        "online",
        status="waived",
        numbers={"success": share(190, 200, "abc123"), "env_steps": 1228800},
        gate={"name": "no worse", "passed": False, "waiver": "a trial", "detail": "by 1 %"},
        curves={"success": {"x": "env_steps", "y": "success"}},
    )
    rows = [{"env_steps": i * 1000, "success": i / 20} for i in range(20)]
    lines = [*map(json.dumps, rows), '{"env_steps": 1e9, "success": NaN}', '{"env_st']
    (online / "metrics.jsonl").write_text("\n".join(lines))
    (run / "config.yaml").write_text("stages: {bc: {}, online: {}, export: {}}\n")
    (run / "run.json").write_text(json.dumps({"name": "lift", "versions": {"torch": "2.13.0"}}))
    return run


def read(run: Path, **summary: Any) -> str:
    return write_report(run, summary).read_text()


def test_page_needs_nothing_but_itself(run: Path) -> None:
    text = read(run)
    for tag, attributes in Document(text).tags:
        assert tag not in {"link", "script", "iframe", "object", "base"}
        for name in ("src", "href", "poster", "data", "xlink:href"):
            assert (attributes.get(name) or "data:").startswith("data:")
    assert not re.search(r"https?://|@import|url\(", text)


def test_page_shows_the_run(run: Path) -> None:
    text = Document(read(run)).text
    for part in ("61.0%", "95.0%", "abc123", "waived", "a trial", "to come", "2.13.0"):
        assert part in text
    assert "1\u202f228\u202f800" in text


def test_videos_are_inside(run: Path) -> None:
    videos = [attributes for tag, attributes in Document(read(run)).tags if tag == "video"]
    assert [video["src"] for video in videos] == ["data:video/mp4;base64,bW92aW5nIHBpY3R1cmVz"]


def test_same_run_same_page(run: Path) -> None:
    assert read(run) == read(run)


def test_everything_is_escaped(tmp_path: Path) -> None:
    run = tmp_path / "run"
    stage = add_stage(
        run,
        0,
        "bc",
        stage=EVIL,
        status=EVIL,
        numbers={EVIL: EVIL, "success": share(1, 2, EVIL), "x": {"value": 1.0, "unit": EVIL}},
        gate={"name": EVIL, "passed": False, "waiver": EVIL, "detail": EVIL},
        curves={EVIL: {"x": EVIL, "y": "y"}},
        files={EVIL: "a.mp4"},
        digest=EVIL,
    )
    (stage / "a.mp4").write_bytes(b"")
    (stage / "metrics.jsonl").write_text(json.dumps({EVIL: 1, "y": 2}))
    (run / "config.yaml").write_text(json.dumps({"stages": {EVIL: {}}}))
    (run / "run.json").write_text(json.dumps({"name": EVIL, EVIL: EVIL}))
    text = read(run, name=EVIL, fact=EVIL)
    assert "<script" not in text
    assert "'x'" not in text
    assert Document(text).text.count(EVIL) > 8


def test_success_under_two_protocols_is_not_put_together(run: Path) -> None:
    add_stage(run, 2, "export", numbers={"success": share(180, 200, "zzz999")})
    text = read(run)
    cards = text.split('class="intervals"')[1:]
    assert len(cards) == 2
    assert "Only numbers under one protocol may be compared" in text


def test_a_mapping_of_numbers_is_taken_apart(run: Path) -> None:
    add_stage(run, 2, "export", numbers={"latency_us": {"onnx_p50": 61.4}})
    text = Document(read(run)).text
    assert "latency us onnx p50" in text
    assert "61.4" in text


def test_a_file_outside_the_stage_is_not_shown(run: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.mp4").write_bytes(b"secret")
    stage = add_stage(run, 2, "spy", files={"a": "../../secret.mp4", "b": "link.mp4"})
    (stage / "link.mp4").symlink_to(tmp_path / "secret.mp4")
    assert "c2VjcmV0" not in read(run)


@pytest.mark.parametrize("damage", ["", "{", "[]", "null", '{"numbers": 3, "curves": []}'])
def test_a_damaged_record_costs_itself_and_not_the_page(run: Path, damage: str) -> None:
    (run / "00-bc" / "report.json").write_text(damage)
    (run / "run.json").write_text(damage)
    (run / "config.yaml").write_text("stages: [1, {")
    assert "online" in Document(read(run)).text


def test_a_bundle_that_does_not_load_is_said(run: Path) -> None:
    stage = add_stage(run, 2, "export", artifacts={"bundle": "bundle"})
    (stage / "bundle").mkdir()
    assert "no manifest" in Document(read(run)).text


def test_an_empty_run_is_a_page(tmp_path: Path) -> None:
    assert "0 of 0 stages" in Document(read(tmp_path)).text


def test_text_is_escaped_and_markup_is_not() -> None:
    assert el("p", "<", el("b", "&"), None, 3, cls='a"b', data_x=True) == (
        '<p class="a&quot;b" data-x>&lt;<b>&amp;</b>3</p>'
    )


def points_of(chart: str) -> list[tuple[float, float]]:
    found = re.findall(r'<polyline class="raw" points="([^"]*)"', chart)
    assert len(found) == 1
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in found[0].split())]


def test_chart_keeps_order_and_ends() -> None:
    chart = line_chart(Curve("a", "x", [(0.0, 0.0), (5.0, 1.0), (10.0, 0.5)], True))
    (x0, y0), (x1, y1), (x2, y2) = points_of(chart)
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.11)
    assert y0 - y2 == pytest.approx(y2 - y1, abs=0.11)


@pytest.mark.parametrize(
    "values",
    [[3.0], [0.0, 0.0], [-2.0, -2.0], [1e-30, 1e-30], [1e9, 1e9 + 1], [1e-6, 1.0], [5e-324]],
)
def test_chart_of_any_values_stays_in_its_frame(values: list[float]) -> None:
    chart = line_chart(Curve("a", "x", [(float(i), y) for i, y in enumerate(values)], False))
    found = points_of(chart)
    assert len(found) == len(values)
    for x, y in found:
        assert 0 <= x <= 440
        assert 0 <= y <= 230
    Document(chart)


def test_long_curves_are_thinned_and_end_where_they_end() -> None:
    points = [(float(i), float(i)) for i in range(100_000)]
    drawn = points_of(line_chart(Curve("a", "x", points, False)))
    assert len(drawn) < 500
    assert drawn[-1][0] == pytest.approx(440 - 14, abs=0.1)


def test_interval_bar_says_what_it_shows() -> None:
    bar = interval_bar(0.5, 0.25, 0.75)
    assert 'aria-label="50.0%, interval 25.0% to 75.0%"' in bar
    assert 'x1="25.00%"' in bar


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (1228800.0, "1.229M"), (300_000.0, "300k"), (0.05, "0.05"), (-2e-5, "-2e-05")],
)
def test_short(value: float, text: str) -> None:
    assert format_short(value) == text
