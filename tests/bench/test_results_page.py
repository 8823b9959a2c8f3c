"""The page of results says what is kept, and its figures show it."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from small_suites import kept

from robo_rl.bench.reporting.plot import figure, mean_curve
from robo_rl.bench.results_page import page, write_page
from robo_rl.bench.runner.suite_runner import BenchFolders, SuiteRunner
from robo_rl.bench.suite.curves import Point
from robo_rl.bench.suite.suite import CellKey, ReportConfig, cell_keys
from robo_rl.bench.suite.suite_file import suite_names
from robo_rl.core.errors import DeviceError

ROOT = Path(__file__).parents[2]
TEN = ReportConfig(window=10)


def curve(*rates: int) -> list[Point]:
    """So many successes in each ten episodes, 100 steps apart."""
    return [Point(100 * i, float(i), 10, good, 0.0) for i, good in enumerate(rates, 1)]


def test_a_line_is_the_mean_over_seeds_and_stands_still_where_one_has_ended():
    drawn = mean_curve([curve(2, 4, 8), curve(4)], "env_steps", TEN, 300.0)
    at = {round(x): y for x, y in drawn}
    assert min(at) >= 100  # no rate before the first point
    assert at[min(at)] == pytest.approx(0.3)
    assert at[min(x for x in at if x >= 200)] == pytest.approx(0.4)
    assert at[300] == pytest.approx((0.8 + 0.4) / 2)
    assert mean_curve([curve(2)], "env_steps", ReportConfig(window=11), 100.0) == []
    assert mean_curve([], "seconds", TEN, 100.0) == []


def test_a_run_that_ended_before_a_full_window_takes_no_curve_away():
    whole = [curve(2, 4, 8), curve(4, 8)]
    drawn = mean_curve(whole, "env_steps", TEN, 300.0)
    short = [point._replace(episodes=1, successes=1) for point in curve(9)]
    assert mean_curve([*whole, short], "env_steps", TEN, 300.0) == drawn != []


def test_a_figure_has_a_line_a_method_and_is_well_formed():
    drawn = figure("near <1>", {"a & b": [curve(1, 2)], "none": [[]]}, "seconds", TEN)
    root = ElementTree.fromstring(drawn)
    text = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"near <1>", "a & b", "none", "seconds"} <= set(text)
    lines = list(root.iter("{http://www.w3.org/2000/svg}polyline"))
    assert len(lines) == 1
    places = [tuple(map(float, pair.split(","))) for pair in lines[0].attrib["points"].split()]
    assert places[0][1] > places[-1][1]  # upwards


def test_of_many_lines_none_looks_like_another_and_all_names_are_inside():
    drawn = figure("many", {f"task {i}": [curve(i % 9, 5)] for i in range(50)}, "seconds", TEN)
    root = ElementTree.fromstring(drawn)
    lines = [each.attrib for each in root.iter("{http://www.w3.org/2000/svg}polyline")]
    assert len({(each["stroke"], each.get("stroke-dasharray")) for each in lines}) == 50
    height = float(root.attrib["viewBox"].split()[3])
    names = [each for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert max(float(each.attrib["y"]) for each in names) < height


def test_returns_have_an_axis_of_their_own():
    points = [point._replace(returns=250.0 * i) for i, point in enumerate(curve(0, 0, 0), 1)]
    report = ReportConfig(measure="return", window=10)
    drawn = figure("hopper", {"default": [points]}, "env_steps", report)
    assert mean_curve([points], "env_steps", report, 300.0)[-1] == (300.0, 750.0)
    assert ">600<" in drawn
    assert "%" not in drawn


@pytest.fixture
def runner(here: Path, monkeypatch: pytest.MonkeyPatch) -> SuiteRunner:
    """The small suite with all cells of one seed kept, which is enough here."""
    monkeypatch.setattr("robo_rl.bench.results_page._SEEDS", 1)
    runner = SuiteRunner("tiny", [], BenchFolders(here / "runs", here / "results"))
    for key in cell_keys(runner.plan.suite):
        if key.seed == 0:
            points = [(point[0], point[1], point[2], point[3]) for point in curve(2, 8)]
            digest = runner.cells[key].digest
            runner.results.write(kept(*key, digest=digest, suite="tiny", curve=points))
    runner.kept = runner.results.read()
    return runner


def test_a_suite_is_shown_with_its_command_its_tables_and_its_curves(
    runner: SuiteRunner, here: Path
):
    write_page(here / "docs" / "results.md", [runner])
    text = (here / "docs" / "results.md").read_text()
    for said in ("## tiny", "    robo-rl bench tiny\n", "| near | sde | 1 | 50.0 % | 90.0 % | – |",
                 "Missing, 6: near, far: default, ", "Run on 2 cores, x86_64, Linux"):  # fmt: skip
        assert said in text
    figures = re.findall(r"!\[.*\]\((.*)\)", text)
    assert len(figures) == 4
    assert all((here / "docs" / name).is_file() for name in figures)


def test_figures_that_the_page_no_longer_has_are_removed_and_others_stay(
    runner: SuiteRunner, here: Path
):
    page, figures = here / "docs" / "results.md", here / "docs" / "figures"
    figures.mkdir(parents=True)
    for name in ("tiny-gone-env_steps.svg", "tiny-of_another_page.svg"):
        (figures / name).write_text("<svg/>")
    page.write_text("![x](figures/tiny-gone-env_steps.svg)\n![y](figures/../../kept.svg)\n")
    (here / "kept.svg").write_text("<svg/>")
    write_page(page, [runner])
    names = {path.name for path in figures.iterdir()}
    assert "tiny-gone-env_steps.svg" not in names
    assert {"tiny-of_another_page.svg", "tiny-near-seconds.svg"} <= names
    assert (here / "kept.svg").is_file()


def test_of_too_few_seeds_nothing_is_said(runner: SuiteRunner, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("robo_rl.bench.results_page._SEEDS", 2)
    written = page("p.md", [runner])
    assert list(written) == ["p.md"]
    assert "Finished runs: 6. The tables appear once" in written["p.md"]
    assert "50.0 %" not in written["p.md"]


def test_runs_of_other_settings_are_counted_before_there_are_tables(runner: SuiteRunner):
    for key, cell in runner.kept.items():
        runner.kept[key] = cell.model_copy(update={"digest": "other"})
    assert "Finished runs: 6. 6 of them have other settings" in page("p.md", [runner])["p.md"]


def test_every_figure_is_drawn_once(runner: SuiteRunner, monkeypatch: pytest.MonkeyPatch):
    drawn: list[str] = []

    def draw(title: str, *rest: Any) -> str:
        drawn.append(title)
        return figure(title, *rest)

    monkeypatch.setattr("robo_rl.bench.results_page.figure", draw)
    assert len(page("p.md", [runner])) - 1 == len(drawn) == 4


def test_of_a_task_whose_curves_have_no_episode_there_is_no_figure(runner: SuiteRunner):
    for key, cell in runner.kept.items():
        if key.task == "near":
            runner.kept[key] = cell.model_copy(update={"curve": [(0, 0.0, 0, 0, None)] * 5})
    drawn = [name for name in page("p.md", [runner]) if name != "p.md"]
    assert drawn == [f"figures/tiny-far-{axis}.svg" for axis in ("env_steps", "seconds")]


def test_further_seeds_that_are_kept_are_shown(runner: SuiteRunner):
    key = CellKey("near", "sde", 7)
    digest = runner.plan.cell(key).digest
    runner.results.write(kept(*key, 0.5, digest=digest, suite="tiny"))
    again = SuiteRunner("tiny", [], BenchFolders(runner.out.parent, runner.results.root))
    text = page("p.md", [again])["p.md"]
    assert "| near | sde | 2 | 50.0 % | 70.0 % | " in text
    assert "Missing, 6: " in text


def test_of_a_single_method_there_is_one_figure_with_a_line_a_task(runner: SuiteRunner):
    methods = {"default": {}}
    suite = runner.plan.suite.model_copy(update={"methods": methods})
    alone = dataclasses.replace(runner.plan, suite=suite)
    runner.plan, runner.part = alone, suite
    drawn = {name: text for name, text in page("p.md", [runner]).items() if name != "p.md"}
    assert list(drawn) == [f"figures/tiny-default-{axis}.svg" for axis in ("env_steps", "seconds")]
    assert all(f">{task}<" in text for text in drawn.values() for task in ("near", "far"))


def test_a_suite_of_which_nothing_is_kept_is_left_out(here: Path):
    runner = SuiteRunner("tiny", [], BenchFolders(here / "runs", here / "results"))
    assert "tiny" not in page("results.md", [runner])["results.md"]


def test_the_page_in_docs_is_that_of_what_is_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    folders = BenchFolders(Path("runs/bench"), Path("benchmarks/results"))
    try:
        desks = [SuiteRunner(name, [], folders) for name in suite_names()]
    except DeviceError as error:
        pytest.skip(f"not all suites can be composed here: {error}")
    for name, text in page("index.md", desks).items():
        again = "stale: robo-rl bench --page docs/results/index.md"
        assert (ROOT / "docs" / "results" / name).read_text() == text, again
