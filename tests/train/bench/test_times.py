"""Time to a success rate, censored where a run never got there, and ratios of times, by hand."""

from __future__ import annotations

from typing import Any

import pytest
from small_suites import kept

from robo_rl.train.bench.kept import Kept
from robo_rl.train.bench.suite import Key, Ratio, Reported
from robo_rl.train.bench.times import Time, middle, ratio, time_to, times

REPORT = Reported(window=10, thresholds=(0.8, 0.9))


def run(method: str, seed: int, *rates: int, pace: float = 1.0) -> Kept:
    """A run that has so many successes in each ten episodes, 100 steps and ``pace`` s apart."""
    points = [(100 * i, pace * i, 10, good) for i, good in enumerate(rates, 1)]
    return kept("near", method, seed, curve=points)


def by_key(*cells: Kept) -> dict[Key, Kept]:
    return {cell.key: cell for cell in cells}


def test_a_run_is_there_at_its_first_point_on_the_rate():
    found = run("a", 0, 2, 8, 9, 7, pace=3.0)
    assert time_to(found, 0.8, "env_steps", REPORT) == Time(200.0, False)
    assert time_to(found, 0.9, "seconds", REPORT) == Time(9.0, False)
    assert time_to(found, 0.95, "seconds", REPORT) == Time(12.0, True)
    assert time_to(kept("near", "a", 0), 0.8, "seconds", REPORT) is None


def test_the_curve_is_the_one_that_the_report_names():
    clean = REPORT.model_copy(update={"curve": "clean"})
    found = run("a", 0, 2, 8, 9, 7).model_copy(update={"clean": ((50, 0.5, 10, 8, None),)})
    assert time_to(found, 0.8, "env_steps", clean) == Time(50.0, False)
    assert time_to(run("a", 0, 2, 8, 9, 7), 0.8, "env_steps", clean) is None


def test_stages_in_front_are_counted_where_the_report_says_so():
    report = REPORT.model_copy(update={"clock": ("bc", "none")})
    found = run("a", 0, 8)
    assert time_to(found, 0.8, "seconds", report) == Time(1.0 + 30.0, False)
    assert time_to(found, 0.8, "env_steps", report) == Time(100.0, False)


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
    result = middle([Time(float(value), censored) for value, censored in found])
    assert (result["median"], result["at_least"], result["reached"]) == expected
    assert result["of"] == len(found)


def test_no_runs_have_no_median():
    assert middle([]) == {"median": None, "at_least": False, "reached": 0, "of": 0}


def test_all_thresholds_on_both_axes():
    found = times(REPORT, [run("a", 0, 8, 9), run("a", 1, 2, 8, pace=2.0)])
    assert found["env_steps"]["80"] == {"median": 150.0, "at_least": False, "reached": 2, "of": 2}
    assert found["seconds"]["80"]["median"] == 2.5
    assert found["env_steps"]["90"] == {"median": 200.0, "at_least": True, "reached": 1, "of": 2}


def test_a_ratio_is_of_runs_of_one_task_and_seed():
    cells = by_key(
        run("fast", 0, 9), run("slow", 0, 1, 1, 9),  # 3 times
        run("fast", 1, 2, 9), run("slow", 1, 1, 1, 1, 9, pace=4.0),  # 16 s to 2 s: 8 times
        run("fast", 2, 9), run("slow", 2, 1, 9),  # 2 times
        run("slow", 3, 9),
    )  # fmt: skip
    found = ratio(REPORT, Ratio(fast="fast", slow="slow"), cells)
    assert (found["median"], found["at_least"]) == (3.0, False)
    assert [pair["ratio"] for pair in found["pairs"]] == [3.0, 8.0, 2.0]
    assert found["before"] == {"slow": 0.5, "fast": 0.5}  # as small_suites has it
    steps = ratio(REPORT, Ratio(fast="fast", slow="slow", of="env_steps"), cells)
    assert [pair["ratio"] for pair in steps["pairs"]] == [3.0, 2.0, 2.0]


def test_a_slow_run_that_never_got_there_bounds_the_ratio_and_a_fast_one_loses():
    cells = by_key(
        run("fast", 0, 9), run("slow", 0, 1, 1, 1),
        run("fast", 1, 9), run("slow", 1, 1, 9),
        run("fast", 2, 1), run("slow", 2, 1, 9),
    )  # fmt: skip
    found = ratio(REPORT, Ratio(fast="fast", slow="slow"), cells)
    assert [(p["ratio"], p["at_least"]) for p in found["pairs"]] == [
        (3.0, True),
        (2.0, False),
        (0.0, False),
    ]
    assert (found["median"], found["at_least"]) == (2.0, False)
    assert ratio(REPORT, Ratio(fast="fast", slow="slow"), {})["median"] is None
