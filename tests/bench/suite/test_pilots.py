"""Pilots: equally many of every method, apart from what is reported, and what they choose."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_suites import SUITE, kept, write_suite

from robo_rl.bench.results.cell_record import CellRecord
from robo_rl.bench.results.pilot_choices import (
    PilotChoices,
    PilotTrial,
    area,
    best_trial,
    choose_settings,
    curve_area,
    with_choices,
)
from robo_rl.bench.results.scores import mean
from robo_rl.bench.suite.curves import Point
from robo_rl.bench.suite.plan import SuitePlan
from robo_rl.bench.suite.suite import CellKey, ReportConfig, cell_keys
from robo_rl.bench.suite.suite_file import load_plan, suite_names
from robo_rl.core.errors import ConfigError, DataError

ROOT = Path(__file__).parents[3]


def rate(lr: float) -> dict[str, Any]:
    return {"stages": {"online": {"algo": {"lr": lr}}}}


SETTINGS = {
    "default": [{}, rate(2e-4)],
    "sde": [{}, rate(3e-4)],
    "gaussian": [{}, {"gamma": 0.5}],
}
PILOTS: dict[str, Any] = {
    "experiment": {"stages": {"online": {"updates": 2}}},
    "tasks": {"middle": {"task": {"success_m": 0.2}}},
    "cells": {"middle": {"sde": {"stages": {"online": {"updates": 3}}}}},
    "seeds": [100, 101],
    "settings": SETTINGS,
}


@pytest.fixture
def plan(here: Path) -> SuitePlan:
    write_suite(here, pilots=PILOTS)
    return load_plan("tiny")


def records(
    pilots: SuitePlan, scores: dict[str, float], **changes: Any
) -> dict[CellKey, CellRecord]:
    return {
        key: kept(*key, scores.get(key.method, 0.5), **changes) for key in cell_keys(pilots.suite)
    }


def refused(folder: Path, **changes: Any) -> str:
    write_suite(folder, "bad", **{"pilots": PILOTS, **changes})
    with pytest.raises(ConfigError) as caught:
        load_plan("bad").cells()
    return str(caught.value)


def test_pilots_are_a_suite_of_their_own(plan: SuitePlan):
    pilots = plan.pilot_plan()
    assert pilots.name == "tiny/pilots"
    assert pilots.command == "robo-rl bench tiny --pilots"
    found = pilots.cells()
    assert len(found) == 1 * 6 * 2
    for (task, method, seed), updates, lr in [
        (("middle", "default@0", 100), 2, 1e-4),
        (("middle", "default@1", 101), 2, 2e-4),
        (("middle", "sde@1", 100), 3, 3e-4),
    ]:
        cell = found[CellKey(task, method, seed)].experiment
        online = cell.stages["online"].cfg
        assert (online.updates, online.algo.cfg.lr, cell.seed) == (updates, lr, seed)
        assert cell.task is not None
        assert cell.task.cfg.success_m == 0.2
    assert found[CellKey("middle", "gaussian@1", 100)].experiment.gamma == 0.5
    assert plan.cells().keys() == {*cell_keys(plan.suite)}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"settings": SETTINGS | {"sde": [{}]}}, "equally many of every method, found default 2"),
        ({"settings": {key: [{}] for key in SETTINGS}}, "expected equally many"),
        ({"settings": {"default": [{}, {}], "sde": [{}, {}]}}, "none of method 'gaussian'"),
        ({"settings": SETTINGS | {"sd": [{}, {}]}}, "no method 'sd'; did you mean 'sde'"),
        ({"cells": {"midle": {}}}, "no task 'midle'; did you mean 'middle'"),
        ({"cells": {"middle": {"sd": {}}}}, "no method 'sd'; did you mean 'sde'"),
        ({"tasks": {}}, r"suite\.pilots\.tasks"),
        ({"seeds": []}, r"suite\.pilots\.seeds"),
    ],
)
def test_mistakes_in_pilots_are_named(here: Path, changes: dict[str, Any], says: str):
    assert re.search(says, refused(here, pilots=PILOTS | changes))


def test_a_pilots_task_and_seed_are_never_reported(here: Path, plan: SuitePlan):
    """Neither under the same label, nor under another; and not for further seeds."""
    same = PILOTS | {"tasks": {"near": {"task": {"success_m": 0.2}}}, "cells": {}}
    said = refused(here, pilots=same | {"seeds": [1]})
    assert "pilot 'near' has task and seed of the reported cell near default 1" in said
    other = PILOTS | {"tasks": {"near_again": SUITE["tasks"]["near"]}, "cells": {}}
    other["experiment"] = PILOTS["experiment"] | {"eval": {"seed": 9}}
    said = refused(here, pilots=other | {"seeds": [0]})
    assert re.search(r"bad\.yaml:\d+ suite\.pilots: pilot 'near_again' has task and seed of", said)
    write_suite(here, "good", pilots=other)
    assert load_plan("good").cells()
    with pytest.raises(ConfigError, match="reported cell near default 100"):
        load_plan("good").cells([100])
    assert plan.cells([100])


def test_a_task_may_not_have_the_name_of_their_folder(here: Path):
    said = refused(here, tasks={**SUITE["tasks"], "pilots": {}})
    assert "'pilots' is the folder of the pilots" in said


def test_a_suite_without_pilots_says_so(here: Path):
    del here
    with pytest.raises(ConfigError, match="suite tiny: has no pilots"):
        load_plan("tiny").pilot_plan()


def trial(score: float | None, area: float | None = None) -> PilotTrial:
    return PilotTrial(overrides={}, score=score, area=area, digest="")


@pytest.mark.parametrize(
    ("trials", "best"),
    [
        ([trial(0.5), trial(0.7), trial(0.6)], 1),
        ([trial(0.7, 0.1), trial(0.7, 0.3), trial(0.7, 0.2)], 1),
        ([trial(0.7, 0.3), trial(0.7, 0.3)], 0),
        ([trial(None, 0.9), trial(0.0, 0.1)], 1),
        ([trial(0.6, None), trial(0.6, 0.0)], 1),
    ],
)
def test_the_rule_is_the_final_score_then_the_area_then_the_first(trials: Any, best: int):
    assert best_trial(trials, "final") == best


def test_a_suite_about_speed_compares_the_areas_first():
    trials = [trial(1.0, 0.7), trial(0.9, 0.8), trial(0.95, 0.8), trial(1.0, None)]
    assert best_trial(trials, "area") == 2


def test_the_area_holds_the_last_value_of_a_run_that_stopped():
    """0.5 until step 100, 1 at 200 and to 400: (0.5·100 + 0.75·100 + 1·200) / 400 = 0.8125."""
    points = [Point(100, 1.0, 8, 4, 0.0), Point(200, 2.0, 8, 8, 0.0)]
    report = ReportConfig(window=8)
    assert curve_area(points, 400, report) == pytest.approx(0.8125, abs=2e-3)
    assert curve_area(points, 400, ReportConfig(window=99)) is None


def test_the_areas_of_returns_are_compared_as_growth(here: Path):
    """Returns of 1000 and 1, against 990 and 10, of policies that began with 500 and 1."""
    del here
    report = ReportConfig(window=8, measure="return")
    areas = []
    for low, high in ((1000.0, 1.0), (990.0, 10.0)):
        found = []
        for after, before in ((low, 500.0), (high, 1.0)):
            numbers = {"return": {"value": after, "n": 8}, "return_before": {"value": before}}
            cell = kept("near", "a", 0, numbers=numbers)
            curve = [(100, 1.0, 8, 0, after), (200, 2.0, 8, 0, after)]
            found.append(area(cell.model_copy(update={"curve": curve}), 200, report))
        areas.append(mean(found))
    assert areas == pytest.approx([(100.0 + 0.0) / 2, (98.0 + 900.0) / 2])


def test_a_method_is_given_its_best_setting_once_all_its_pilots_are_kept(plan: SuitePlan):
    pilots = plan.pilot_plan()
    found = records(pilots, {"default@1": 0.6, "sde@0": 0.7, "gaussian@1": 0.9})
    del found[CellKey("middle", "gaussian@0", 101)]
    choices = choose_settings(pilots, found, "final")
    assert {m: each.chosen for m, each in choices.methods.items()} == {"default": 1, "sde": 0}
    first, second = choices.methods["default"].trials
    assert (first.score, second.score) == (0.5, 0.6)
    assert second.overrides == rate(2e-4)
    assert second.cells.keys() == {"middle 100", "middle 101"}


def test_a_setting_may_be_a_name_or_nothing_and_may_refer_to_other_keys(here: Path):
    linked = {"stages": {"online": {"algo": {"epochs": "${stages.online.updates}"}}}}
    settings = {"default": [None, linked], "sde": [{}, "method/ncdpo"], "gaussian": [{}, {}]}
    write_suite(here, pilots=PILOTS | {"settings": settings})
    plan = load_plan("tiny")
    choices = choose_settings(plan.pilot_plan(), records(plan.pilot_plan(), {}), "final")
    tried = {m: [each.overrides for each in c.trials] for m, c in choices.methods.items()}
    assert tried["default"] == [{}, linked]
    assert tried["sde"][1]["stages"]["online"]["algo"]["ratio"] == "noise_conditioned"
    assert choices.valid(plan) == choices


def test_reported_cells_have_the_chosen_setting_and_say_which(plan: SuitePlan, tmp_path: Path):
    pilots = plan.pilot_plan()
    choices = choose_settings(pilots, records(pilots, {"default@1": 0.6}), "final")
    choices.write(tmp_path, "tiny")
    again = PilotChoices.read(tmp_path, "tiny").valid(plan)
    assert again == choices
    cell = with_choices(plan, again).cell(CellKey("near", "default", 0))
    assert cell.experiment.stages["online"].cfg.algo.cfg.lr == 2e-4
    assert cell.experiment.stages["online"].cfg.updates == 4  # not the pilots' budget
    assert cell.pilot is not None
    assert (cell.pilot.pilot, cell.pilot.of) == ("default@1", 2)
    assert plan.cell(CellKey("near", "default", 0)).pilot is None


def test_pilots_of_a_reported_task_have_start_states_of_their_own(here: Path):
    """Else the best of several settings would be reported on the episodes that chose it."""
    same = PILOTS | {"tasks": {"near": {"task": {"success_m": 0.2}}}, "cells": {}}
    said = refused(here, pilots=same)
    assert "pilot 'near' has task and start states of the reported cell near default 0" in said
    assert "pilots.experiment.eval.seed" in said
    for good in ({"experiment": {"eval": {"seed": 9}}}, {"select_by": "area"}):
        write_suite(here, "good", pilots=same | good)
        assert load_plan("good").cells()


def test_a_choice_by_another_rule_does_not_count(here: Path, plan: SuitePlan):
    pilots = plan.pilot_plan()
    made = choose_settings(pilots, records(pilots, {"default@1": 0.6}), "final").methods["default"]
    areas = zip(made.trials, (0.9, 0.1), strict=True)
    trials = tuple(each.model_copy(update={"area": area}) for each, area in areas)
    choices = PilotChoices(methods={"default": made.model_copy(update={"trials": trials})})
    assert choices.valid(plan) == choices
    write_suite(here, pilots=PILOTS | {"select_by": "area"})
    assert choices.valid(load_plan("tiny")) == PilotChoices(rule="area")


@pytest.mark.usefixtures("plan")
def test_a_choice_under_changed_keys_does_not_count_without_them():
    """Such as that of a trial with two updates."""
    changed = load_plan("tiny", ["stages.bc.steps=9"])
    pilots = changed.pilot_plan()
    choices = choose_settings(pilots, records(pilots, {}), "final")
    assert choices.valid(changed) == choices
    assert not choices.valid(load_plan("tiny")).methods
    for other in ("stages.bc.steps=8", "stages.online.updates=2"):
        assert not choices.valid(load_plan("tiny", [other])).methods


def test_a_choice_among_other_settings_does_not_count(here: Path, plan: SuitePlan):
    pilots = plan.pilot_plan()
    choices = choose_settings(pilots, records(pilots, {}), "final")
    assert choices.valid(load_plan("tiny", ["stages.bc.steps=9"])) == choices
    settings = SETTINGS | {"sde": [{}, rate(4e-4)]}
    write_suite(here, pilots=PILOTS | {"settings": settings})
    assert choices.valid(load_plan("tiny")).methods.keys() == {"default", "gaussian"}
    write_suite(here, pilots=PILOTS | {"seeds": [102]})
    assert not choices.valid(load_plan("tiny")).methods
    write_suite(here)
    assert not choices.valid(load_plan("tiny")).methods


def test_a_damaged_file_is_a_typed_error(tmp_path: Path):
    path = tmp_path / "tiny" / "pilots" / "chosen.json"
    path.parent.mkdir(parents=True)
    for text in ("{", '{"methods": {"default": {"chosen": -1, "trials": []}}}'):
        path.write_text(text)
        with pytest.raises(DataError, match=r"chosen\.json.*--pilots` writes it"):
            PilotChoices.read(tmp_path, "tiny")


def test_pilots_keep_the_order_of_the_suite_in_which_methods_take_turns(plan: SuitePlan):
    """The cells of a task and a seed follow each other, so a slow hour slows all methods."""
    keys = cell_keys(replace(plan.pilot_plan()).suite)
    assert [key.seed for key in keys] == [100] * 6 + [101] * 6
    assert [key.method for key in keys[:3]] == ["default@0", "default@1", "sde@0"]


def test_every_kept_choice_is_one_among_the_settings_of_its_suite(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    plans = {name: load_plan(name) for name in suite_names()}
    piloted = {name: plan for name, plan in plans.items() if plan.suite.pilots is not None}
    assert piloted
    for name, plan in piloted.items():
        choices = PilotChoices.read(Path("benchmarks/results"), name)
        stale = choices.methods.keys() - choices.valid(plan).methods.keys()
        assert not stale, f"robo-rl bench {name} --pilots"
