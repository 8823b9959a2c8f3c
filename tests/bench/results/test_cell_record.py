"""Settings of a kept cell are compared by what they were and by what the suite says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from small_suites import kept

from robo_rl.bench.results.cell_record import settings_agree
from robo_rl.bench.results.collect import make_cell_record
from robo_rl.bench.results.run_conditions import RunConditions
from robo_rl.bench.suite.pilots import PilotOrigin
from robo_rl.bench.suite.plan import Cell
from robo_rl.bench.suite.suite import CellKey
from robo_rl.bench.suite.suite_file import load_plan
from robo_rl.core.errors import DataError


@pytest.fixture
def cell(here: Path) -> Cell:
    del here
    return load_plan("tiny").cell(CellKey("near", "default", 0))


def test_a_cell_of_the_same_digest_is_of_the_same_settings(cell: Cell):
    assert kept("near", "default", 0, digest=cell.digest).matches_cell(cell)
    assert not kept("near", "default", 0).matches_cell(cell)


def test_an_option_that_came_later_does_not_make_old_results_stale(cell: Cell):
    then = cell.settings
    del then["stages"]["online"]["exploration"]
    assert kept("near", "default", 0, config=then).matches_cell(cell)
    del then["stages"]["online"]["updates"]  # which the suite sets
    assert not kept("near", "default", 0, config=then).matches_cell(cell)


def test_a_cell_of_before_the_pilots_is_theirs_only_with_the_same_digest(cell: Cell):
    """All methods of a suite with pilots run under the same defaults."""
    then = cell.settings
    del then["stages"]["online"]["exploration"]
    chosen = PilotOrigin(pilot="default@0", of=2, digest="ab")
    piloted = replace(cell, pilot=chosen)
    assert not kept("near", "default", 0, config=then).matches_cell(piloted)
    assert kept("near", "default", 0, config=then, pilot=chosen).matches_cell(piloted)
    assert kept("near", "default", 0, digest=cell.digest).matches_cell(piloted)


def test_stages_in_another_order_do(cell: Cell):
    config = cell.settings
    labels = ["collect", "bc", "distill", "online"]
    config["stages"] = {label: config["stages"][label] for label in labels}
    assert not kept("near", "default", 0, config=config).matches_cell(cell)
    assert kept("near", "default", 0, config=cell.settings).matches_cell(cell)


def test_what_was_kept_before_sittings_were_is_of_one_sitting():
    (pace,) = kept("near", "default", 0).conditions
    assert (pace.jobs, pace.threads, pace.version) == (1, 2, "0.1.0")


def test_other_values_and_options_that_are_gone_do(cell: Cell):
    other, gone = cell.settings, cell.settings
    other["stages"]["online"]["algo"]["clip"] = 0.123
    gone["stages"]["online"]["was_here_once"] = 1
    assert not kept("near", "default", 0, config=other).matches_cell(cell)
    assert not kept("near", "default", 0, config=gone).matches_cell(cell)


def test_settings_without_effect_do_not(cell: Cell):
    then = cell.settings
    then["stages"]["online"]["checkpoint_every"] = 77
    then["env"]["backend"]["threads"] = 1
    then["launch"]["processes"] = 2
    assert kept("near", "default", 0, config=then).matches_cell(cell)
    then["stages"]["online"]["num_envs"] = 77
    assert not kept("near", "default", 0, config=then).matches_cell(cell)


def test_a_curve_of_another_stage_does_too(cell: Cell):
    assert cell.stage == "online"
    same, unknown, other = (
        kept("near", "default", 0, digest=cell.digest, stage=stage)
        for stage in ("online", "", "distill")
    )
    assert same.matches_cell(cell)
    assert unknown.matches_cell(cell)  # kept before that was noted
    assert not other.matches_cell(cell)


def test_the_commits_are_those_of_the_processes_that_made_it():
    plain = kept("near", "default", 0)
    assert (plain.commits, plain.interrupted) == (("0.1.0",), None)
    starts = [{"robo-rl": "0.1.0+ga"}, {"robo-rl": "0.1.0+gb"}]
    online = plain.stages["online"].model_copy(update={"starts": tuple(starts)})
    bc = plain.stages["bc"].model_copy(update={"starts": tuple(starts[:1])})
    both = plain.model_copy(update={"stages": {"bc": bc, "online": online}})
    assert (both.commits, both.interrupted) == (("0.1.0+ga", "0.1.0+gb"), True)
    sittings = tuple(RunConditions(jobs=1, threads=1, version=v) for v in ("a", "b"))
    once = plain.model_copy(update={"stages": {"bc": bc}, "sittings": sittings})
    assert once.interrupted is False  # what it took up was made in another sitting
    assert plain.model_copy(update={"sittings": sittings}).interrupted


@pytest.mark.parametrize("damage", ["", "[]", '{"machine": {}}', '{"versions": {}, "machine": 3}'])
def test_a_run_that_does_not_say_how_it_was_made_is_named(cell: Cell, tmp_path: Path, damage: str):
    (tmp_path / "run.json").write_text(damage)
    with pytest.raises(DataError, match=r"run\.json: .*; run the suite again"):
        make_cell_record("tiny", cell, tmp_path, ())


def test_an_option_set_to_what_runs_did_before_it_agrees():
    kept, now = {"collect": {"noise": 0.2}}, {"collect": {"noise": 0.2, "record": "executed"}}
    assert settings_agree(kept, now, now)
    label = {"collect": {"noise": 0.2, "record": "label"}}
    assert not settings_agree(kept, label, label)
    assert settings_agree(kept, label, {"collect": {}})  # not set: tables name the difference
