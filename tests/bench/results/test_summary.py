"""A summary's numbers equal those counted by hand from the kept cells."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from small_suites import kept

from robo_rl.bench.reporting.remarks import remarks
from robo_rl.bench.reporting.tables import tables
from robo_rl.bench.results.cell_record import CellRecord, NumberRecord, StageResult
from robo_rl.bench.results.gate_outcomes import collect_gate_outcomes
from robo_rl.bench.results.run_conditions import RunConditions
from robo_rl.bench.results.summary import summarise
from robo_rl.bench.suite.plan import Cell
from robo_rl.bench.suite.suite import CellKey, Suite, cell_keys
from robo_rl.stats.across_runs import iqm, rate_interval, spread_interval
from robo_rl.stats.intervals import wilson

SUITE = Suite.model_validate(
    {
        "tasks": {"near": {}, "far": {}},
        "methods": {"default": {}, "other": {}},
        "seeds": [0, 1, 2],
        "report": {
            "window": 10,
            "thresholds": [0.8],
            "ratios": {"speedup": {"slow": "other", "threshold": 0.8}},
            "sequential": {"seeds_per_group": 1, "num_groups": 3, "alpha": 0.2},
        },
    }
)
SCORES = {
    ("near", "default"): [0.90, 0.95, 0.85],
    ("far", "default"): [0.80, 1.00, 0.90],
    ("near", "other"): [0.60, 0.70, 0.95],
    ("far", "other"): [0.50, 0.55, 0.45],
}


def cells_of(suite: Suite, digest: str = "0123") -> dict[CellKey, Cell]:
    """Cells as far as a summary looks at them."""
    return {key: Cell(key, cast(Any, _Experiment()), digest, {}) for key in cell_keys(suite)}


def matrix() -> dict[CellKey, CellRecord]:
    found: dict[CellKey, CellRecord] = {}
    for (task, method), row in SCORES.items():
        for seed, success in enumerate(row):
            ends = (90, 20) if method == "default" else (10, 80)
            curve = [(100 * i, float(i), 100, good) for i, good in enumerate(ends, 1)]
            cell = kept(task, method, seed, success, curve=curve, one_step=success - 0.01)
            found[cell.key] = cell
    return found


@pytest.fixture
def summary() -> dict[str, Any]:
    return summarise("made_up", SUITE, cells_of(SUITE), matrix())


def test_a_tasks_mean_has_the_interval_of_its_runs_and_their_episodes(summary: dict[str, Any]):
    for (task, method), row in SCORES.items():
        found = summary["tasks"][task][method]
        assert found["success"] == pytest.approx(sum(row) / 3)
        assert (found["low"], found["high"]) == rate_interval(
            row, 3 * 100
        )  # as small_suites has it
        assert (found["seeds"], found["cells"]) == (3, 3)


def test_over_all_tasks_the_interval_is_of_all_runs_and_their_episodes(summary: dict[str, Any]):
    found, table = summary["default"], np.transpose([SCORES[t, "default"] for t in SUITE.tasks])
    assert found["success"] == pytest.approx(0.9)
    assert (found["low"], found["high"]) == rate_interval(table, 6 * 100)  # as small_suites has it
    low, high = spread_interval(table, iqm)
    assert (found["iqm_low"], found["iqm_high"]) == (low, min(1.0, high))
    assert found["iqm"] == pytest.approx((0.85 + 0.90 + 0.90 + 0.95) / 4)
    assert found["one_step"] == pytest.approx(0.89)
    assert found["teacher"] == pytest.approx(0.9)
    assert found["before"] == 0.5
    assert found["minutes"] == 2.0


def test_how_likely_a_method_is_better_than_the_reference(summary: dict[str, Any]):
    pairs = [
        (x > y) + 0.5 * (x == y)
        for task in ("near", "far")
        for x in SCORES[task, "other"]
        for y in SCORES[task, "default"]
    ]
    assert summary["other"]["improvement"] == pytest.approx(sum(pairs) / len(pairs))
    assert summary["other"]["improvement_low"] <= sum(pairs) / len(pairs)
    assert "improvement" not in summary["default"]


def test_times_ratios_falls_and_verdicts(summary: dict[str, Any]):
    near = summary["tasks"]["near"]
    assert near["default"]["env_steps"]["80"]["median"] == 100
    assert near["other"]["seconds"]["80"]["median"] == 2.0
    assert summary["speedup"] == 2.0
    assert len(summary["ratios"]["speedup"]["pairs"]) == 6
    assert (summary["default"]["degraded"], summary["other"]["degraded"]) == (6, 0)
    assert summary["default"]["max_degradation"] == pytest.approx(0.7, abs=0.02)
    assert summary["default"]["mean_degradation"] == pytest.approx(0.7, abs=0.02)
    assert summary["other"]["max_degradation"] == 0.0
    assert summary["other"]["stopped_early"] == 0
    (verdict,) = summary["sequential"]
    # Of 2 seeds and 2 tasks all four pairs fall one way, as in 2 of 16 relabellings: 0.125, where
    # two of three groups may spend 0.2 · 2/3; of one seed it is 2 of 4.
    assert (verdict["method"], verdict["verdict"], verdict["seeds"]) == ("other", "different", 2)
    assert verdict["difference"] == pytest.approx(0.5875 - 0.9125)


def test_runs_that_end_below_what_they_began_with_are_counted():
    """Of a rate, by more than what is a fall: 0.5 before, 0.05 of tolerance."""
    ends = {0: 0.44, 1: 0.46, 2: 0.9}
    found = {key: kept(*key, success=ends[key.seed]) for key in matrix()}
    row = summarise("made_up", SUITE, cells_of(SUITE), found)["default"]
    assert (row["worse"], row["cells"]) == (2, 6)


def test_a_loss_of_exactly_the_tolerance_is_not_more():
    found: dict[CellKey, CellRecord] = {}
    for key in matrix():
        numbers = {"success": {"value": 0.35, "n": 200}, "success_before": {"value": 0.40}}
        found[key] = kept(*key, numbers=numbers)
    assert summarise("made_up", SUITE, cells_of(SUITE), found)["default"]["worse"] == 0


def test_episodes_that_all_seeds_share_count_once():
    """Three runs that fail on the same ten of 200 starts say nothing of the other starts."""
    found: dict[CellKey, CellRecord] = {}
    for key in matrix():
        number = {"value": 0.95, "n": 200, "unit": "1", "protocol": "0123"}
        found[key] = kept(*key, numbers={"success": number, "success_before": {"value": 0.5}})
    near = summarise("made_up", SUITE, cells_of(SUITE), found)["tasks"]["near"]["default"]
    assert (near["low"], near["high"]) == pytest.approx(tuple(wilson(190, 200)))
    for key, cell in found.items():  # a new option of the env, with a default
        extra = cell.stages["online"].numbers["success"].model_extra
        extra["protocol"] = f"of seed {key.seed}"
    near = summarise("made_up", SUITE, cells_of(SUITE), found)["tasks"]["near"]["default"]
    assert (near["low"], near["high"]) == pytest.approx(tuple(wilson(190, 200)))
    for key, cell in found.items():
        cell.config["eval"] = {"seed": 0, "measure": ("success", "return")[key.seed % 2]}
    near = summarise("made_up", SUITE, cells_of(SUITE), found)["tasks"]["near"]["default"]
    assert (near["low"], near["high"]) == pytest.approx(tuple(wilson(190, 200)))
    for key, cell in found.items():
        cell.config["eval"] = {"seed": key.seed}
    near = summarise("made_up", SUITE, cells_of(SUITE), found)["tasks"]["near"]["default"]
    assert (near["low"], near["high"]) == pytest.approx(tuple(wilson(570, 600)))


def test_runs_whose_episodes_share_starts_are_not_tested_for_falls():
    grouped = {"stages": {"online": {"algo": {"name": "ppo", "group_size": 8}}}}
    curve = [(100, 1.0, 100, 90), (200, 2.0, 100, 9)]
    found = {key: kept(*key, curve=curve, config=grouped) for key in matrix()}
    row = summarise("made_up", SUITE, cells_of(SUITE), found)["default"]
    assert (row["degraded"], row["curves"]) == (0, 0)


def test_runs_that_stopped_early_are_counted_and_those_that_were_too_short_to_fall_are_not():
    found = matrix()
    budget = {"stages": {"online": {"updates": 240, "env_steps": 1000}}}
    spent = {0: (240, 900), 1: (100, 1000), 2: (100, 900)}
    for key, cell in list(found.items()):
        updates, env_steps = spent[key.seed]
        numbers = {**cell.stages["online"].numbers, "updates": updates}
        numbers |= {"env_steps": env_steps, "rollbacks": key.seed}
        curve = (
            [(100, 1.0, 100, 90)] if key.seed == 2 else [(100, 1.0, 100, 90), (200, 2.0, 100, 9)]
        )
        found[key] = kept(*key, curve=curve, numbers=numbers, config=budget)
    summary = summarise("made_up", SUITE, cells_of(SUITE), found)
    row = summary["default"]
    assert (row["degraded"], row["curves"], row["stopped_early"], row["cells"]) == (4, 4, 2, 6)
    shown = {table.title: table for table in tables(summary, SUITE.report, list(SUITE.methods))}
    assert shown["All tasks"].rows[0][-3:] == ("4 of 4", "6", "2 of 6")


def test_the_shape_that_is_promised(summary: dict[str, Any]):
    assert {"success", "low", "high", "one_step"} <= summary["default"].keys()
    assert summary["tasks"].keys() == {"near", "far"}
    assert (summary["missing"], summary["stale"]) == ([], [])


def test_what_is_missing_is_named_and_what_is_stale_left_out():
    found = matrix()
    del found[CellKey("near", "other", 2)]
    stale = CellKey("far", "default", 0)
    found[stale] = found[stale].model_copy(update={"digest": "else", "config": {"seed": 7}})
    cells = {key: Cell(key, cast(Any, _Experiment()), "0123", {}) for key in cells_of(SUITE)}
    summary = summarise("made_up", SUITE, cells, found)
    assert summary["missing"] == ["near other 2"]
    assert summary["stale"] == ["far default 0"]
    assert summary["tasks"]["far"]["default"]["success"] == pytest.approx(0.95)
    assert summary["default"]["seeds"] == 2  # of the three, those that both tasks have
    assert summary["default"]["success"] == pytest.approx((0.95 + 0.85 + 1.0 + 0.9) / 4)
    assert (summary["sequential"][0]["seeds"], summary["sequential"][0]["next"]) == (0, [0])


def ragged() -> dict[CellKey, CellRecord]:
    """Runs of two tasks whose scores and all that stands beside them tell which cells they are."""
    found: dict[CellKey, CellRecord] = {}
    for key in cell_keys(SUITE):
        worth = 0.1 * key.seed + (0.05 if key.task == "far" else 0.0)
        numbers = {"success": {"value": 0.5 + worth}, "success_before": {"value": worth}}
        found[key] = kept(*key, 0.6 + worth, numbers=numbers, one_step=0.7 + worth)
    return found


def test_all_numbers_of_a_row_are_of_the_same_cells():
    found = ragged()
    del found[CellKey("far", "other", 2)]
    row = summarise("made_up", SUITE, cells_of(SUITE), found)["other"]
    worth = (0.0 + 0.1 + 0.05 + 0.15) / 4  # of seeds 0 and 1, which both tasks have
    shown = {"success": 0.5, "after": 0.5, "before": 0.0, "one_step": 0.7, "teacher": 0.6}
    assert {name: row[name] for name in shown} == pytest.approx(
        {name: base + worth for name, base in shown.items()}
    )
    assert (row["seeds"], row["cells"], row["tasks"], row["kept"]) == (2, 4, 2, 5)


def test_where_a_task_has_none_there_are_no_numbers_of_all_tasks():
    found = {key: each for key, each in ragged().items() if key[:2] != ("far", "other")}
    summary = summarise("made_up", SUITE, cells_of(SUITE), found)
    row = summary["other"]
    names = ("success", "low", "high", "after", "before", "one_step", "teacher", "minutes")
    assert {row[name] for name in names} == {None}
    assert (row["tasks"], row["seeds"], row["cells"], row["curves"]) == (1, 0, 0, 0)
    assert summary["tasks"]["near"]["other"]["one_step"] == pytest.approx(0.8)
    shown = {table.title: table for table in tables(summary, SUITE.report, list(SUITE.methods))}
    assert shown["All tasks"].rows[1][:5] == ("other", "1 of 2", "0", "–", "–")


def test_a_mean_that_not_all_cells_of_the_row_have_is_none():
    found = ragged()
    key = CellKey("near", "default", 1)
    stages = {name: each for name, each in found[key].stages.items() if name != "distill"}
    found[key] = found[key].model_copy(update={"stages": stages})
    summary = summarise("made_up", SUITE, cells_of(SUITE), found)
    assert summary["default"]["one_step"] is summary["tasks"]["near"]["default"]["one_step"] is None
    assert summary["default"]["success"] is not None
    none = SUITE.model_copy(update={"report": SUITE.report.model_copy(update={"student": None})})
    assert summarise("made_up", none, cells_of(none), found)["other"]["one_step"] is None


def test_runs_that_were_not_made_alike_are_named():
    found = matrix()
    cells = cells_of(SUITE)
    assert [line for line in remarks(summarise("made_up", SUITE, cells, found))] == [
        "run on 2 cores, x86_64, Linux, 1 at once, 2 threads each",
        "made by robo-rl 0.1.0",
        "the records of 12 cells do not state whether a run was interrupted",
        "the records of 12 cells do not contain the world",
    ]
    key = CellKey("far", "other", 1)
    paces = [
        RunConditions(jobs=1, threads=2, version="0.1.0"),
        RunConditions(jobs=2, threads=1, version="0.1.0+gab"),
    ]
    found[key] = found[key].model_copy(update={"sittings": tuple(paces)})
    summary = summarise("made_up", SUITE, cells, found)
    seconds, commits, interrupted, *_ = remarks(summary)
    assert interrupted == "resumed after an interruption, 1: far: other (seed 1)"
    assert seconds.startswith("seconds are not comparable")
    assert seconds.endswith(
        "1 on 2 cores, x86_64, Linux, 2 at once, 1 thread each (far: other (seed 1))"
    )
    assert commits == (
        "several commits made these cells; one with shared stages or a resumed run can have"
        " more than one: 12 by robo-rl 0.1.0; 1 by robo-rl 0.1.0+gab (far: other (seed 1))"
    )
    assert summary["provenance"]["commits"]["robo-rl 0.1.0+gab"] == ["far other 1"]
    assert len(summary["machines"]) == 2


def test_cells_of_another_world_are_left_out_and_said_to_be():
    found = {
        key: each.model_copy(update={"world": {"robot": "a"}}) for key, each in matrix().items()
    }
    key = CellKey("far", "other", 1)
    found[key] = found[key].model_copy(update={"world": {"robot": "b"}, "ended": "2025-01-01"})
    summary = summarise("made_up", SUITE, cells_of(SUITE), found)
    assert summary["other_world"] == {"far other 1": "robot: b → a"}
    assert (summary["stale"], summary["world_unknown"]) == ([], 0)
    assert summary["tasks"]["far"]["other"]["seeds"] == 2
    assert "far other 1 (robot: b → a)" in next(remarks(summary))


class _Experiment:
    """An experiment as far as a summary looks at it."""

    def __init__(self) -> None:
        self.stages, self.waive = dict[str, Any](), dict[str, str]()

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return {"seed": 0}


def test_nothing_kept_is_no_crash():
    summary = summarise("made_up", SUITE, cells_of(SUITE), {})
    assert summary["default"]["success"] is None
    assert len(summary["missing"]) == 12
    assert summary["tasks"] == {"near": {}, "far": {}}
    assert summary["sequential"][0]["verdict"] == "more seeds needed"
    shown = tables(summary, SUITE.report, list(SUITE.methods))
    assert [table.title.split(",")[0] for table in shown] == [
        "Ratios",
        "Sequential test of success",
    ]


def test_returns_are_compared_by_their_growth():
    report = {"measure": "return", "thresholds": [0.8], "window": 10}
    suite = SUITE.model_copy(
        update={"report": SUITE.report.model_validate(report), "tasks": {"hopper": {}}}
    )
    cells: dict[CellKey, CellRecord] = {}
    for method, afters in (("default", (300.0, 350.0, 250.0)), ("other", (-50.0, 100.0, 100.0))):
        for seed, after in enumerate(afters):
            before = 100.0 if method == "default" else -100.0
            numbers = {"return": {"value": after}, "return_before": {"value": before}}
            cell = kept("hopper", method, seed, numbers=numbers)
            cells[cell.key] = cell
    summary = summarise("made_up", suite, cells_of(suite), cells)
    found = summary["tasks"]["hopper"]
    assert found["default"]["growth"] == pytest.approx(200.0)
    assert found["other"]["growth"] == pytest.approx((50.0 + 200.0 + 200.0) / 3)
    assert (found["default"]["before"], found["default"]["after"]) == (100.0, 300.0)
    assert "+200 %" in str(tables(summary, suite.report, list(suite.methods))[0].rows)


def test_tables_say_what_the_numbers_say(summary: dict[str, Any]):
    shown = {table.title.split(",")[0]: table for table in tables(
        summary, SUITE.report, list(SUITE.methods))}  # fmt: skip
    rows = {row[:2]: row[2:] for row in shown["Every task"].rows}
    assert rows["near", "default"][:3] == ("3", "50.0 %", "90.0 %")
    times = {row[:2]: row[2:] for row in
             shown["Env steps and time to a success rate in training"].rows}  # fmt: skip
    assert times["far", "other"] == ("50.0 %", "200", "2.0 s")
    (row,) = shown["Ratios"].rows
    assert row[:3] == ("speedup", "other ÷ default", "seconds to 80.0 %")
    assert row[3:] == ("> 2.00×", "6", "> 2.00× … > 2.00×", "–", "–", "50.0 % ÷ 50.0 %")
    assert shown["All tasks"].rows[0][-3:] == ("6 of 6", "–", "0 of 6")
    assert all(len(row) == len(table.header) for table in shown.values() for row in table.rows)


def test_a_row_that_another_revision_made_says_so():
    found = matrix()
    alike = tables(summarise("made_up", SUITE, cells_of(SUITE), found), SUITE.report, ["default"])
    assert not any("revision" in table.header for table in alike)
    key = CellKey("far", "other", 1)
    found[key] = found[key].model_copy(update={"versions": {"robo-rl": "0.1.0+g0123456789ab"}})
    summary = summarise("made_up", SUITE, cells_of(SUITE), found)
    shown = {table.title: table for table in tables(summary, SUITE.report, list(SUITE.methods))}
    made = {row[:2]: row[-1] for row in shown["Every task"].rows}
    assert made.pop(("far", "other")) == "0.1.0, 0123456"
    assert set(made.values()) == {"0.1.0"}
    assert [row[-1] for row in shown["All tasks"].rows] == ["0.1.0", "0.1.0, 0123456"]
    assert "revision" not in shown["Ratios"].header


def test_a_run_that_was_gone_on_with_elsewhere_names_both_machines_and_libraries():
    found = matrix()
    key = CellKey("near", "default", 0)
    here, there = ("2 cores, x86_64, Linux", "64 cores, aarch64, Linux")
    paces = [
        RunConditions(jobs=1, threads=2, version="0.1.0", machine=place) for place in (there, here)
    ]
    starts = [{"torch": "2.12.0", "robo-rl": "0.1.0"}, {"torch": "2.13.0", "robo-rl": "0.1.0"}]
    online = found[key].stages["online"].model_copy(update={"starts": tuple(starts)})
    stages = {**found[key].stages, "online": online}
    found[key] = found[key].model_copy(update={"sittings": tuple(paces), "stages": stages})
    summary = summarise("made_up", SUITE, cells_of(SUITE), found)
    assert summary["machines"] == [f"{p}, 1 at once, 2 threads each" for p in (here, there)]
    assert summary["provenance"]["machines"][summary["machines"][1]] == ["near default 0"]
    assert summary["versions"] == ["torch 2.12.0", "torch 2.13.0"]


def test_of_runs_improved_from_data_it_has_what_the_gate_saw_and_what_came_of_it():
    cells = {
        key: each.model_copy(update={"stages": {**each.stages, "improve": offline(each)}})
        if key.method == "other"
        else each
        for key, each in matrix().items()
    }
    summary = summarise("made_up", SUITE, cells_of(SUITE), cells)
    assert {row["method"] for row in summary["gates"]} == {"other"}
    assert [row["after"]["value"] for row in summary["gates"] if row["task"] == "far"] == [
        0.50,
        0.55,
        0.45,
    ]
    together, table = (
        each for each in tables(summary, SUITE.report, ["other"]) if "gate" in each.title
    )
    assert table.rows[0] == (
        *("near", "other", "0", "improve", "0.20 [0.10, 0.30]", "0.20 [0.10, 0.30]"),
        *("0.60 [0.50, 0.70]", "0.60 [0.50, 0.70]", "–", "1.25", "new"),
    )
    assert table.rows[2][-1] == "previous"  # 0.95, which the gate did not believe
    assert together.rows[1] == (
        *("far", "other", "improve", "0, 1, 2", "0.20, 0.20, 0.20", "0.50, 0.55, 0.45"),
        "new, new, new",
    )


def test_it_says_by_how_much_values_were_widened_where_that_is_known():
    key = CellKey("near", "other", 0)
    cell = matrix()[key]
    improve = {"name": "offline", "model_error": 0.4}
    config = {**cell.config, "stages": {**cell.config.get("stages", {}), "improve": improve}}
    stages = {**cell.stages, "improve": offline(cell)}
    (row,) = collect_gate_outcomes(
        {key: cell.model_copy(update={"stages": stages, "config": config})}
    )
    assert (row["model_error"], row["ood_distance"]) == (0.4, 1.25)


def offline(cell: CellRecord) -> StageResult:
    """Values as the truths are; accepted but where that is above 0.9."""
    success = SCORES[cell.task, cell.method][cell.seed]
    before, after = (
        NumberRecord(value=value, low=value - 0.1, high=value + 0.1, unit="reward")
        for value in (0.2, success)
    )
    numbers = {"return_before": before, "value_before": before, "return_ungated": after}
    numbers |= {"value_after": after, "accepted": float(success < 0.9)}  # type: ignore[dict-item]
    numbers |= {"ood_distance_after": 1.25}  # type: ignore[dict-item]
    return StageResult(seconds=1.0, status="passed", gate="", shared=False, numbers=numbers)
