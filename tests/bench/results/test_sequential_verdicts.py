"""Which seeds and methods the sequential test looks at was planned before anything was run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_suites import kept

from robo_rl.bench.results.cell_record import CellRecord
from robo_rl.bench.results.sequential_verdicts import planned, verdicts
from robo_rl.bench.runner.suite_runner import BenchFolders, SuiteRunner
from robo_rl.bench.suite.suite import CellKey, Suite, cell_keys
from robo_rl.core.errors import ConfigError


def suite(seeds: list[int], group: int = 3, groups: int = 2, methods: str = "ab") -> Suite:
    plan = {"seeds_per_group": group, "num_groups": groups, "alpha": 0.9}
    report = {"reference": "a", "sequential": plan}
    labels = {method: {} for method in methods}
    fields = {"tasks": {"near": {}}, "methods": labels, "seeds": seeds, "report": report}
    return Suite.model_validate(fields)


def cells(seeds: list[int], methods: str = "ab") -> dict[CellKey, CellRecord]:
    found = [
        kept("near", method, seed, 0.5 + 0.1 * worth + 0.01 * seed)
        for seed in seeds
        for worth, method in enumerate(methods)
    ]
    return {cell.key: cell for cell in found}


def only(found: list[dict[str, Any]]) -> tuple[Any, ...]:
    (each,) = found
    return each["verdict"], each["seeds"], each["next"]


@pytest.mark.parametrize(
    ("there", "seeds", "lacking"),
    [
        ([], 0, [1, 2, 3]),
        ([1, 2, 4], 0, [3]),  # not {1, 2, 4}: that would be another group once 3 is there
        ([1, 2, 4, 5, 6], 0, [3]),
        ([1, 2, 3], 3, [4, 5, 6]),
        ([1, 2, 3, 5, 7], 3, [4, 6]),
    ],
)
def test_groups_are_those_that_were_planned(there: list[int], seeds: int, lacking: list[int]):
    found = verdicts(suite([1, 2, 3]), cells(there), "ab")
    if seeds:  # a level of 0.9: of 2³ relabellings 2 are as far apart
        assert only(found) == ("different", seeds, [])
    else:
        assert only(found) == ("more seeds needed", seeds, lacking)
    equal = {key: cell for key, cell in cells(there, "a").items()}
    equal |= {key._replace(method="b"): cell.model_copy(update={"method": "b"})
              for key, cell in equal.items()}  # fmt: skip
    assert only(verdicts(suite([1, 2, 3]), equal, "ab")) == ("more seeds needed", seeds, lacking)


def test_planned_are_the_suites_seeds_and_those_that_follow():
    assert planned(suite([1, 2, 3])) == [1, 2, 3, 4, 5, 6]
    assert planned(suite([7, 2])) == [7, 2, 8, 9, 10, 11]
    assert planned(suite([*range(10)])) == [0, 1, 2, 3, 4, 5]


def test_a_method_that_lacks_a_seed_holds_up_all():
    there = cells([1, 2, 3], "abc")
    del there[CellKey("near", "c", 2)]
    found = verdicts(suite([1, 2, 3], methods="abc"), there, "abc")
    assert [each["next"] for each in found] == [[2], [2]]


def test_seeds_of_the_command_line_change_no_verdict(here: Path):
    places = BenchFolders(here / "runs", here / "results")
    runner = SuiteRunner("tiny", [], places)
    for key in cell_keys(runner.plan.suite):
        worth = 0.9 if key.method == "default" else 0.5
        found = kept(*key, worth, digest=runner.cells[key].digest, suite="tiny")
        runner.results.write(found)
    as_filed = SuiteRunner("tiny", [], places).summary()["sequential"]
    assert as_filed[0]["seeds"] == 0
    assert as_filed[0]["next"] == [2]
    for seeds in ("[1]", "[1, 0, 2]", "[5]"):
        other = SuiteRunner("tiny", [f"suite.seeds={seeds}"], places)
        assert other.summary()["sequential"] == as_filed


def test_looking_at_a_part_of_a_suite_changes_no_verdict(here: Path):
    runner = SuiteRunner("tiny", [], BenchFolders(here / "runs", here / "results"))
    for key in cell_keys(runner.plan.suite):
        worth = 0.9 if key.method == "default" else 0.5
        digest = runner.cells[key].digest
        runner.results.write(kept(*key, worth, digest=digest, suite="tiny"))
    runner.kept = runner.results.read()
    whole = {each["method"]: each for each in runner.summary()["sequential"]}
    with pytest.raises(ConfigError, match="tiny --task: the suite has no task 'lift_cube'"):
        runner.select(["lift_cube"], [], [])
    runner.select(["near"], ["sde"], [0])
    (part,) = runner.summary()["sequential"]
    assert part == whole["sde"]
    assert part["next"] == [2]
