"""A noise that breaks what the policy can do is told, once, at the beginning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import EXPERIMENT

from robo_rl.config.models import validate
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.stage import Context, Report
from robo_rl.train.rl.episode_cohorts import EpisodeOutcomes
from robo_rl.train.rl.exploration.exploration_check import DONE, ExplorationCheck

HALF = {"value": 0.5, "low": 0.43, "high": 0.57}


def context(tmp_path: Path, made: dict[str, Any], measure: str = "success") -> Context:
    cfg = validate({**EXPERIMENT, "eval": {"measure": measure}}, Experiment)
    expert = Report("collect", {"success": {"value": 1.0, "low": 0.99, "high": 1.0}})
    clone = Report("bc", made, {"policy": "policy"})
    return Context(cfg, tmp_path, [(tmp_path, expert), (tmp_path, clone)])


def outcomes(good: int, episodes: int) -> EpisodeOutcomes:
    return EpisodeOutcomes(torch.arange(episodes) < good, torch.zeros(episodes))


@pytest.mark.parametrize(("good", "told"), [(0, True), (8, True), (30, False), (60, False)])
def test_it_is_told_where_surely_less_than_half_succeeds(tmp_path: Path, good: int, told: bool):
    toll = ExplorationCheck(context(tmp_path, {"success": HALF}))
    assert toll.observe(outcomes(0, 0)) is None
    said = toll.observe(outcomes(good, 100))
    assert (said is not None) == told
    if said is not None:
        assert f"{good} of 100 episodes" in said
        assert "43% to 57%" in said


def test_it_waits_for_enough_episodes_and_is_said_once(tmp_path: Path):
    toll = ExplorationCheck(context(tmp_path, {"success": HALF}))
    said = [toll.observe(outcomes(0, 40)) for _ in range(6)]
    assert [text is not None for text in said] == [False, False, True, False, False, False]
    assert "0 of 120 episodes" in str(said[2])


def test_a_resumed_check_counts_on_and_one_that_is_done_says_nothing(tmp_path: Path):
    begun = ExplorationCheck(context(tmp_path, {"success": HALF}))
    assert begun.observe(outcomes(0, 60)) is None
    resumed, done = (ExplorationCheck(context(tmp_path, {"success": HALF})) for _ in range(2))
    resumed.load_state_dict(begun.state_dict())
    done.load_state_dict(DONE)
    assert "0 of 110 episodes" in str(resumed.observe(outcomes(0, 50)))
    assert done.observe(outcomes(0, 200)) is None


@pytest.mark.parametrize(
    ("made", "measure"),
    [
        ({}, "success"),  # begun without demonstrations: the experts' success is not the policy's
        ({"success": {"value": 0.0, "low": 0.0, "high": 0.02}}, "success"),
        ({"success": HALF}, "return"),
    ],
)
def test_nothing_is_told_where_nothing_was_to_be_lost(
    tmp_path: Path, made: dict[str, Any], measure: str
):
    assert ExplorationCheck(context(tmp_path, made, measure)).observe(outcomes(0, 500)) is None
