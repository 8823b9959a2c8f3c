"""Time to a success rate, censored where a run never got there, and ratios of times, by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
from small_suites import kept

from robo_rl.bench.results.cell_record import CellRecord
from robo_rl.bench.results.time_to_threshold import (
    TimeToThreshold,
    median_time,
    median_times,
    time_ratio,
    time_to_threshold,
)
from robo_rl.bench.suite.suite import CellKey, ReportConfig, TimeRatioConfig
from robo_rl.stats.across_runs import student_interval

REPORT = ReportConfig(window=10, thresholds=(0.8, 0.9))


def run(method: str, seed: int, *rates: int, pace: float = 1.0) -> CellRecord:
    """A run that has so many successes in each ten episodes, 100 steps and ``pace`` s apart."""
    points = [(100 * i, pace * i, 10, good) for i, good in enumerate(rates, 1)]
    return kept("near", method, seed, curve=points)


def begun(rate: float | None, n: int | None) -> CellRecord:
    """A run whose start was so good in n episodes, and whose looks are at 30 and 90 %."""
    rows = tuple((100 * i, float(i), 10, good, None) for i, good in enumerate((3, 9), 1))
    numbers = {"success": {"value": 0.9}, "success_before": {"value": rate, "n": n}}
    curve = [row[:4] for row in rows]
    return kept("near", "a", 0, numbers=numbers, curve=curve, clean=rows)


def by_key(*cells: CellRecord) -> dict[CellKey, CellRecord]:
    return {cell.key: cell for cell in cells}


def test_a_run_is_there_at_its_first_point_on_the_rate():
    found = run("a", 0, 2, 8, 9, 7, pace=3.0)
    assert time_to_threshold(found, 0.8, "env_steps", REPORT) == TimeToThreshold(200.0)
    assert time_to_threshold(found, 0.9, "seconds", REPORT) == TimeToThreshold(9.0)
    assert time_to_threshold(found, 0.95, "seconds", REPORT) == TimeToThreshold(12.0, censored=True)
    assert time_to_threshold(kept("near", "a", 0), 0.8, "seconds", REPORT) is None


def test_one_that_is_there_in_its_first_full_window_took_no_longer_than_that():
    found = run("a", 0, 8, 9)
    assert time_to_threshold(found, 0.8, "env_steps", REPORT) == TimeToThreshold(
        100.0, reached_at_start=True
    )
    assert time_to_threshold(found, 0.9, "env_steps", REPORT) == TimeToThreshold(200.0)
    slower = REPORT.model_copy(update={"window": 20})
    assert time_to_threshold(found, 0.8, "env_steps", slower) == TimeToThreshold(
        200.0, reached_at_start=True
    )


def test_the_curve_is_the_one_that_the_report_names():
    clean = REPORT.model_copy(update={"curve": "eval"})
    found = run("a", 0, 2, 8, 9, 7).model_copy(update={"clean": ((50, 0.5, 10, 8, None),)})
    assert time_to_threshold(found, 0.8, "env_steps", clean) == TimeToThreshold(
        50.0, reached_at_start=True
    )
    assert time_to_threshold(run("a", 0, 2, 8, 9, 7), 0.8, "env_steps", clean) is None


@pytest.mark.parametrize(
    ("curve", "began", "n", "expected"),
    [
        ("eval", 0.8, 10, TimeToThreshold(100.0, reached_at_start=True)),
        ("eval", 0.79, 10, TimeToThreshold(200.0)),
        ("eval", 0.8, 9, TimeToThreshold(200.0)),  # too few episodes to tell
        ("eval", 0.8, None, TimeToThreshold(200.0)),
        ("eval", None, 10, TimeToThreshold(200.0)),
        ("training", 0.8, 10, TimeToThreshold(200.0)),  # it explores: that is another policy
    ],
)
def test_what_began_there_took_no_time_whatever_became_of_it(
    curve: str, began: float | None, n: int | None, expected: TimeToThreshold
):
    report = REPORT.model_copy(update={"curve": curve})
    assert time_to_threshold(begun(began, n), 0.8, "env_steps", report) == expected


def test_one_that_began_there_and_ended_before_there_was_a_window_took_no_longer_than_it_had():
    report = REPORT.model_copy(update={"curve": "eval", "window": 100})
    assert time_to_threshold(begun(0.8, 100), 0.8, "env_steps", report) == TimeToThreshold(
        200.0, reached_at_start=True
    )
    assert time_to_threshold(begun(0.79, 100), 0.8, "env_steps", report) == TimeToThreshold(
        200.0, censored=True
    )


def test_a_run_that_never_got_there_was_given_all_the_time_until_its_end():
    clean = REPORT.model_copy(update={"curve": "eval"})
    found = run("a", 0, 2, 8, 9, 7).model_copy(update={"clean": ((50, 0.5, 10, 3, None),)})
    assert time_to_threshold(found, 0.8, "env_steps", clean) == TimeToThreshold(
        400.0, censored=True
    )
    assert time_to_threshold(found, 0.8, "seconds", clean) == TimeToThreshold(4.0, censored=True)


def test_stages_in_front_are_counted_where_the_report_says_so():
    report = REPORT.model_copy(update={"prior_stages": ("bc", "none")})
    found = run("a", 0, 2, 8)
    assert time_to_threshold(found, 0.8, "seconds", report) == TimeToThreshold(2.0 + 30.0)
    assert time_to_threshold(found, 0.8, "env_steps", report) == TimeToThreshold(200.0)


def test_stages_in_front_can_count_in_one_ratio_alone():
    """The second run is three times as fast, and both are cloned in 30 s."""
    cells = by_key(run("slow", 0, 2, 9, pace=3.0), run("fast", 0, 2, 9))
    plain, cloned = (
        time_ratio(REPORT, TimeRatioConfig(fast="fast", slow="slow", prior_stages=stages), cells)
        for stages in ((), ("bc",))
    )
    assert plain["median"] == pytest.approx(6.0 / 2.0)
    assert cloned["median"] == pytest.approx((6.0 + 30.0) / (2.0 + 30.0))
    with pytest.raises(ValueError, match="expected axis 'seconds', found 'env_steps'"):
        TimeRatioConfig(slow="slow", axis="env_steps", prior_stages=("bc",))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([(3, False), (1, False), (2, False)], (2.0, False, 3)),
        ([(3, False), (1, False), (9, True)], (3.0, False, 2)),  # 9 or more: 3 is the middle
        ([(3, False), (1, False), (2, True)], (2.0, True, 2)),  # truly it is 2 … 3
        ([(3, True), (1, False), (9, True)], (3.0, True, 1)),
        ([(1, False), (4, True)], (2.5, True, 1)),
        ([(5, True)], (5.0, True, 0)),
    ],
)
def test_the_median_of_censored_times_is_the_least_it_can_be(
    found: list[tuple[float, bool]], expected: tuple[Any, ...]
):
    result = median_time([TimeToThreshold(float(value), censored) for value, censored in found])
    assert (result["median"], result["at_least"], result["reached"]) == expected
    assert result["of"] == len(found)


@pytest.mark.parametrize(
    ("found", "median", "bound"),
    [
        (
            [
                TimeToThreshold(1.0, reached_at_start=True),
                TimeToThreshold(2.0),
                TimeToThreshold(3.0),
            ],
            2.0,
            "",
        ),
        (
            [
                TimeToThreshold(1.0, reached_at_start=True),
                TimeToThreshold(2.0, reached_at_start=True),
                TimeToThreshold(3.0),
            ],
            2.0,
            "at_most",
        ),
        ([TimeToThreshold(5.0, reached_at_start=True)], 5.0, "at_most"),
        (
            [
                TimeToThreshold(4.0, reached_at_start=True),
                TimeToThreshold(3.0),
                TimeToThreshold(5.0),
            ],
            4.0,
            "at_most",
        ),  # truly 3 … 4
        (
            [TimeToThreshold(1.0, reached_at_start=True), TimeToThreshold(2.0, censored=True)],
            1.0,
            "at_least",
        ),  # 1 … ∞
    ],
)
def test_the_median_of_times_that_are_bounds_is_one(
    found: list[TimeToThreshold], median: float, bound: str
):
    result = median_time(found)
    assert result["median"] == median
    assert {name for name in ("at_least", "at_most") if result[name]} == (
        {bound} if bound else set()
    )


def test_no_runs_have_no_median():
    nothing = {"at_least": False, "at_most": False, "reached": 0, "of": 0}
    assert median_time([]) == {"median": None, **nothing}


def test_all_thresholds_on_both_axes():
    found = median_times(REPORT, [run("a", 0, 2, 8, 9), run("a", 1, 2, 2, 2, 8, pace=2.0)])
    exact, least = ({"at_least": bound, "at_most": False} for bound in (False, True))
    assert found["env_steps"]["80"] == {"median": 300.0, **exact, "reached": 2, "of": 2}
    assert found["seconds"]["80"]["median"] == 5.0
    assert found["env_steps"]["90"] == {"median": 350.0, **least, "reached": 1, "of": 2}


def test_a_ratio_is_of_runs_of_one_task_and_seed():
    cells = by_key(
        run("fast", 0, 2, 9), run("slow", 0, *[1] * 5, 9),  # 3 times
        run("fast", 1, 2, 9), run("slow", 1, 1, 1, 1, 9, pace=4.0),  # 16 s to 2 s: 8 times
        run("fast", 2, 2, 9), run("slow", 2, 1, 1, 1, 9),  # 2 times
        run("slow", 3, 2, 9),
    )  # fmt: skip
    found = time_ratio(REPORT, TimeRatioConfig(fast="fast", slow="slow"), cells)
    assert (found["median"], found["at_least"], found["at_most"]) == (3.0, False, False)
    assert [pair["ratio"] for pair in found["pairs"]] == [3.0, 8.0, 2.0]
    assert found["before"] == {"slow": 0.5, "fast": 0.5}  # as small_suites has it
    assert found["mean"] == pytest.approx((3 * 8 * 2) ** (1 / 3))
    assert not found["mean_at_least"]
    logs = student_interval([math.log(each) for each in (3, 8, 2)])
    assert (found["low"], found["high"]) == pytest.approx([math.exp(each) for each in logs])
    steps = time_ratio(REPORT, TimeRatioConfig(fast="fast", slow="slow", axis="env_steps"), cells)
    assert [pair["ratio"] for pair in steps["pairs"]] == [3.0, 2.0, 2.0]


def test_pairs_of_several_tasks_are_columns():
    """Ratios of 2 on two tasks, and 2/e, 2 and 2·e on the third."""
    cells: dict[CellKey, CellRecord] = {}
    for task in ("a", "b", "c"):
        for seed, shift in enumerate((-1.0, 0.0, 1.0)):
            pace = 2.0 * math.exp(shift if task == "a" else 0.0)
            for method, seconds in (("fast", 1.0), ("slow", pace)):
                points = [(100 * i, seconds * i, 10, good) for i, good in enumerate((2, 9), 1)]
                cell = kept(task, method, seed, curve=points)
                cells[cell.key] = cell
    found = time_ratio(REPORT, TimeRatioConfig(fast="fast", slow="slow"), cells)
    # Standard error √(1/3)/3 of the logarithms, two degrees of freedom.
    half = 4.302652730 * math.sqrt(1 / 3) / 3
    assert found["mean"] == pytest.approx(2.0)
    assert found["low"] == pytest.approx(2.0 * math.exp(-half))
    assert found["high"] == pytest.approx(2.0 * math.exp(half))
    del cells[CellKey("b", "slow", 0)]
    found = time_ratio(REPORT, TimeRatioConfig(fast="fast", slow="slow"), cells)
    assert (found["mean"], found["low"], found["high"]) == (None, None, None)


def test_slower_runs_that_never_reach_the_rate_count_with_their_end():
    """Mean and interval are of times up to the budget; whole times are longer."""
    cells = by_key(
        run("fast", 0, *FAST), run("slow", 0, *NEVER),  # 2 times or more
        run("fast", 1, *FAST), run("slow", 1, *[1] * 5, 9),  # 3 times
    )  # fmt: skip
    which = TimeRatioConfig(fast="fast", slow="slow")
    found = time_ratio(REPORT, which, cells)
    assert found["mean"] == pytest.approx(math.sqrt(6))
    assert found["low"] < found["mean"] < found["high"]
    assert found["mean_at_least"]
    longer = time_ratio(REPORT, which, cells | by_key(run("slow", 0, *SLOW)))
    assert (longer["mean"], longer["mean_at_least"]) == (found["mean"], False)
    faster = time_ratio(REPORT, which, cells | by_key(run("fast", 0, *NEVER)))
    assert (faster["mean"], faster["mean_at_least"]) == (None, False)  # of which nothing is known
    begun = time_ratio(REPORT, which, cells | by_key(run("fast", 0, *ALREADY)))
    assert (begun["mean"], begun["mean_at_least"]) == (None, False)  # no end of a budget


FAST, SLOW, NEVER, ALREADY = (2, 9), (1, 1, 1, 9), (1, 1, 1, 1), (9, 9)


@pytest.mark.parametrize(
    ("slow", "fast", "ratio_", "bound"),
    [
        (SLOW, FAST, 2.0, ""),
        (NEVER, FAST, 2.0, "at_least"),
        (NEVER, ALREADY, 4.0, "at_least"),
        (SLOW, ALREADY, 4.0, "at_least"),
        (FAST, NEVER, 0.5, "at_most"),
        (ALREADY, NEVER, 0.25, "at_most"),
        (ALREADY, FAST, 0.5, "at_most"),
        (NEVER, NEVER, 0.0, "at_least"),  # of which nothing is known
        (ALREADY, ALREADY, 0.0, "at_least"),
    ],
)
def test_a_ratio_of_bounds_is_one(
    slow: tuple[int, ...], fast: tuple[int, ...], ratio_: float, bound: str
):
    cells = by_key(run("fast", 0, *fast), run("slow", 0, *slow))
    (pair,) = time_ratio(REPORT, TimeRatioConfig(fast="fast", slow="slow"), cells)["pairs"]
    assert pair["ratio"] == ratio_
    assert {name for name in ("at_least", "at_most") if pair[name]} == ({bound} if bound else set())


def test_the_median_of_ratios_is_a_bound_where_it_hangs_on_one():
    cells = by_key(
        run("fast", 0, *NEVER), run("slow", 0, *NEVER),
        run("fast", 1, *FAST), run("slow", 1, *[1] * 5, 9),  # 3 times
        run("fast", 2, *FAST), run("slow", 2, *[1] * 8),  # 4 times or more
    )  # fmt: skip
    found = time_ratio(REPORT, TimeRatioConfig(fast="fast", slow="slow"), cells)
    assert (found["median"], found["at_least"]) == (3.0, True)  # the first may be any
    assert (found["mean"], found["low"], found["high"]) == (None, None, None)
    del cells[CellKey("near", "slow", 0)]
    assert time_ratio(REPORT, TimeRatioConfig(fast="fast", slow="slow"), cells)["median"] == 3.5
    assert time_ratio(REPORT, TimeRatioConfig(fast="fast", slow="slow"), {})["median"] is None


def test_a_run_that_its_success_ended_before_a_full_window_has_reached_the_rate():
    """Its last evaluation alone is less than a window, and its confirmation was one."""
    evaluated = REPORT.model_copy(update={"curve": "eval"})

    def ended(success: float, n: int, updates: int) -> TimeToThreshold | None:
        numbers = {
            "success": {"value": success, "n": n},
            "success_before": {"value": 0.5, "n": 200},
            "updates": updates,
            "env_steps": 150,
        }
        config = {"stages": {"online": {"updates": 40}}}
        rows = ((100, 1.0, 5, 4, None),)
        found = kept(
            "near", "a", 0, numbers=numbers, curve=[rows[0][:4]], clean=rows, config=config
        )
        return time_to_threshold(found, 0.9, "env_steps", evaluated)

    assert ended(0.95, 200, 5) == TimeToThreshold(100.0, reached_at_start=True)
    assert ended(0.95, 200, 40) == TimeToThreshold(100.0, censored=True)  # its budget ended it
    assert ended(0.85, 200, 5) == TimeToThreshold(100.0, censored=True)
    assert ended(0.95, 9, 5) == TimeToThreshold(100.0, censored=True)  # less than a window
