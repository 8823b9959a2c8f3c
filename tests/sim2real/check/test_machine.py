"""Findings on time: of a busy machine, and of a ramp beside an episode."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from small_bundles import make_bundle

from robo_rl.bundle.manifest import Manifest
from robo_rl.config.models import validate_strict
from robo_rl.config.registry import load
from robo_rl_sim2real.check import machine
from robo_rl_sim2real.check.check_result import Severity
from robo_rl_sim2real.check.survey import cpu_load
from robo_rl_sim2real.node.settings import DeploySettings

ROBOT = load("robots", "panda")


def facts(path: Path, late_s: list[float], episode_s: float = 4.0, **fields: Any) -> Any:
    """What the rules look at."""
    made: Manifest = make_bundle(path / "bundle", ROBOT).manifest
    manifest = made.model_copy(update={"config": {"task": {"episode_s": episode_s}}})
    observe = {"pos": {"topic": "/joint_states", "field": "position"}}
    settings = validate_strict(
        {"robot": {"name": "panda"}, "observe": observe, **fields}, DeploySettings
    )
    return SimpleNamespace(
        loaded_wake_delay_s=np.array(late_s),
        settings=settings,
        contract=manifest.contract,
        manifest=manifest,
    )


@pytest.mark.parametrize(
    ("late_s", "mark", "text", "remedy"),
    [
        (0.02, Severity.OK, "20 ms late", ""),
        (0.1, Severity.WARNING, "more than a period of 50 ms", "chrt -f 10"),
        (1.0, Severity.WARNING, "silent for 3 s", "watchdog.hang_timeout_s=4"),
    ],
)
def test_a_busy_machine_is_told_with_numbers_and_what_to_set(tmp_path, late_s, mark, text, remedy):
    (found,) = machine.check_timing_under_load(facts(tmp_path, [0.001, late_s]))
    assert found.severity is mark
    assert text in found.text
    assert remedy in found.remedy


def test_where_another_steers_the_robot_the_machine_is_not_made_busy(tmp_path: Path):
    assert list(machine.check_timing_under_load(facts(tmp_path, []))) == []


def test_a_ramp_that_eats_an_episode_is_a_warning_with_both_times(tmp_path: Path):
    (found,) = machine.check_ramp(facts(tmp_path, []))
    assert found.severity is Severity.WARNING
    assert "2 s (lifecycle.ramp_s) of an episode that took 4 s in training, 50 %" in found.text
    (found,) = machine.check_ramp(facts(tmp_path, [], lifecycle={"ramp_s": 0.5}))
    assert found.severity is Severity.OK
    assert list(machine.check_ramp(facts(tmp_path, [], episode_s=0.0))) == []


def test_busy_processes_end_with_what_needs_them():
    with cpu_load(3) as made:
        assert [process.poll() for process in made] == [None] * 3
    assert all(process.poll() is not None for process in made)
