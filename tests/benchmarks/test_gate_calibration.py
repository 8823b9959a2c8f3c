"""How estimates and truths are counted, on numbers whose answer is plain."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

CALIBRATION = import_module("gate_calibration")
POLICIES = import_module("_judged_policies")
KEPT = import_module("_kept")
summary = CALIBRATION.summary


def found(*values: float, truth: float, ood_distance: float = 1.0) -> Any:
    """A policy whose values, by as many estimators, and truth are each known to 0.05."""
    sure = 0.05
    scatter = sure * torch.tensor([-0.5, 0.5, -0.5, 0.5])
    members = {str(place): value + scatter for place, value in enumerate(values)}
    truth_is = {"value": truth, "low": truth - sure, "high": truth + sure}
    return CALIBRATION.PolicyEstimate(members, ood_distance, truth_is)


def test_values_that_are_right_cover_and_rank_and_contradict_nothing():
    counted = summary([found(value, truth=value + 0.01) for value in (0.1, 0.4, 0.8)])
    assert (counted["covered"], counted["pairs"], counted["wrong"]) == (3, 6, 0)
    assert counted["rank"] == pytest.approx(1.0)
    assert counted["cannot_tell"] == 0


def test_an_order_turned_round_is_wrong_in_every_pair():
    counted = summary([found(0.1, truth=0.8), found(0.4, truth=0.4), found(0.8, truth=0.1)])
    assert (counted["covered"], counted["wrong"]) == (1, 6)
    assert counted["rank"] == pytest.approx(-1.0)


def test_an_answer_is_not_wrong_where_truths_cannot_be_told_apart():
    counted = summary([found(0.1, truth=0.41), found(0.8, truth=0.40)])
    assert (counted["wrong"], counted["cannot_tell"]) == (0, 0)


@pytest.mark.filterwarnings("ignore:invalid value encountered")
def test_values_alike_cannot_be_told():
    same = found(0.4, truth=0.4)
    assert summary([same, same])["cannot_tell"] == 2


def test_a_policy_out_of_distribution_is_counted_apart_and_never_said_to_be_better():
    counted = summary([found(0.9, truth=0.1, ood_distance=9.0), found(0.4, truth=0.4)])
    assert (counted["ood"], counted["covered"], counted["covered_ood"]) == (1, 1, 0)
    assert counted["cannot_tell"] == 1  # and the other way round it would be said to be worse
    assert counted["wrong"] == 1


def test_estimators_that_disagree_cover_what_is_between_and_tell_nothing():
    apart, other = found(0.1, 0.8, truth=0.45), found(0.4, 0.4, truth=0.4)
    counted = summary([apart, other])
    assert (counted["covered"], counted["cannot_tell"]) == (2, 2)
    one = summary([each.only("1") for each in (apart, other)])
    assert (one["covered"], one["cannot_tell"]) == (1, 0)
    assert one["width"] < counted["width"]


def test_too_few_policies_say_nothing_of_other_tasks():
    known, ood = found(0.4, truth=0.7), found(0.4, truth=0.7, ood_distance=9.0)
    few = {task: [known] * 6 + [ood] * 4 for task in ("a", "b")}
    assert CALIBRATION.over_all(few)["covered_then"] is None


def test_what_is_kept_is_what_is_asked_now():
    for task, plan in product(POLICIES.SETTINGS, POLICIES.PLANS):
        path = Path(CALIBRATION.KEPT) / f"{task}_{plan.name}.json"
        assert KEPT.load_result(path, POLICIES.settings(task, plan)) is not None, path.stem


def test_what_is_asked_is_of_one_task_and_one_plan():
    asked = [
        json.dumps(POLICIES.settings(task, plan), sort_keys=True)
        for task in ("lift_cube", "push-v3")
        for plan in CALIBRATION.PLANS
    ]
    assert len(set(asked)) == 2 * len(CALIBRATION.PLANS)


def test_what_intervals_lack_is_told_by_other_tasks():
    """Truths above the intervals of every task: by the others' errors each of them is covered."""
    sure = [found(0.4, truth=0.4)] * 10
    tasks = {str(task): [found(0.4, truth=0.7 + 0.001 * i) for i in range(10)] for task in range(3)}
    alone = CALIBRATION.over_all({"wrong": tasks["0"], "right": sure, "right too": sure})
    assert alone["off_by_others"]["wrong"] == 0.0 < alone["off_by_others"]["right"]
    assert (alone["covered"], alone["covered_then"]) == (20, 20)
    counted = CALIBRATION.over_all(tasks)
    assert counted["covered"] == 0
    high = found(0.4, truth=0.7).interval.high
    assert counted["off"] == pytest.approx(0.709 - high, abs=0.002)
    assert counted["covered_then"] >= 27
    right = {task: [found(0.4, truth=0.4)] * 10 for task in tasks}
    assert CALIBRATION.over_all(right)["off"] == 0.0


def test_an_improved_policy_is_compared_with_its_clone():
    names = [plan.name for plan in CALIBRATION.PLANS]
    better = {name: found(0.8, truth=0.1) for name in CALIBRATION.IMPROVERS}
    clone = {f"all_{CALIBRATION.WHOLE}": found(0.4, truth=0.4)}
    policies = [(better | clone).get(name, found(0.9, truth=0.9)) for name in names]
    counted = CALIBRATION.over_all({"a": policies, "b": policies})
    assert (counted["better"], counted["contradicted"], counted["improved"]) == (8, 8, 8)


def test_a_difference_error_takes_back_the_answers_that_are_near():
    policies = [found(0.1, truth=0.3), found(0.3, truth=0.1), found(0.9, truth=0.9)]
    places = {plan.name: place for place, plan in enumerate(POLICIES.PLANS)}
    tasks = {"one": [policies[0]] * len(places)}
    tasks["one"][places["awr"]], tasks["one"][places["ppo"]] = policies[1], policies[2]
    near, far = (CALIBRATION.by_error(tasks, error) for error in (0.05, 0.2))
    assert (near["improved_better"], near["improved_contradicted"]) == (2, 1)
    assert (far["improved_better"], far["improved_contradicted"]) == (1, 0)
    assert near["pairs_contradicted"] > far["pairs_contradicted"] == 0
