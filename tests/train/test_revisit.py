"""What a run left behind is evaluated as it acts itself, from wherever one stands."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_runs import EXPERIMENT

from robo_rl.config import ConfigTree
from robo_rl.train.pipeline import run_experiment
from robo_rl.train.policies import load_policy
from robo_rl.train.revisit import evaluate_path

EXPERT = {"name": "gaussian", "horizon": 1, "exec_horizon": 1, "net": {"name": "mlp", "width": 8}}


@pytest.fixture
def expert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stage of a policy with chunks of its own; one stands in a folder beside the runs."""
    stages = {"expert": {"name": "scratch", "steps": 5, "policy": EXPERT}}
    tree = ConfigTree({**EXPERIMENT, "stages": stages, "waive": {}}, {})
    run_experiment(tree, [], tmp_path / "runs")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return Path("../runs/tiny/00-expert")


def test_a_policy_acts_with_chunks_of_its_own(expert: Path):
    assert load_policy(expert / "policy").horizon == 1 < EXPERIMENT["policy"]["exec_horizon"]
    assert len(evaluate_path(expert, episodes=3).success) == 3
