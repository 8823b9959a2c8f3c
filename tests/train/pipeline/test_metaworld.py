"""The Meta-World experiment runs from demonstrations to a student, in a tiny version."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_runs import Runner

TINY = (
    "env.task=reach-v3",
    "policy.net={name: mlp, width: 32, depth: 1}",
    "eval={episodes: 4, num_envs: 4}",
    "stages.collect={episodes: 3, num_envs: 3}",
    "stages.bc={steps: 300, batch: 64}",
    "stages.online={num_envs: 4, decisions: 4, updates: 2}",
    "stages.distill={rounds: 1, steps: 30, num_envs: 4, decisions: 4}",
    "waive={bc: short, online: short, distill: short}",
)


@pytest.mark.slow
def test_the_experiment_runs_to_its_end(runner: Runner, tmp_path: Path):
    pytest.importorskip("metaworld", reason="Meta-World is not installed")
    file = tmp_path / "result.json"
    ended = runner.run("run", "metaworld", *TINY, "--out", tmp_path, "--json", file)
    assert ended.status == 0, ended.output
    stages = {stage["stage"]: stage for stage in json.loads(file.read_text())["stages"]}
    assert list(stages) == ["collect", "bc", "online", "distill"]
    assert stages["collect"]["numbers"]["success"]["value"] == 1.0
    assert stages["online"]["numbers"]["env_steps"] > 0
    again = runner.run("eval", tmp_path / "metaworld" / "03-distill")
    assert again.status == 0, again.output
