"""What a run left behind is evaluated as it acts itself, from wherever one stands."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from small_runs import EXPERIMENT

from robo_rl.config.models import ConfigTree, validate
from robo_rl.core.errors import BundleError, CheckpointError, ConfigError, DataError, DeviceError
from robo_rl.core.spec import ObsSpec, TensorSpec
from robo_rl.train.checkpoint.policies import load_policy
from robo_rl.train.pipeline import reevaluate
from robo_rl.train.pipeline.experiment import HAS_RUN, Experiment
from robo_rl.train.pipeline.reevaluate import evaluate_path
from robo_rl.train.pipeline.run import run_experiment
from robo_rl.train.pipeline.world_specs import check_policy_in_world

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


@pytest.mark.parametrize(
    "env",
    [
        {"name": "gym", "id": "Hopper-v5", "import_module": "mine"},
        {"name": "gym", "id": "mine:Hopper-v5"},
        {"name": "latency", "env": {"name": "gym", "id": "Hopper-v5", "import_module": "mine"}},
        {"name": "remote", "adapter": "/tmp/mine.py"},
        {"name": "remote", "adapter": "point_mass", "python": "mine"},
        {"name": "remote", "adapter": "point_mass", "socket": "mine"},
    ],
    ids=["module", "id", "within", "adapter", "python", "socket"],
)
def test_a_bundle_does_not_choose_the_code_that_is_run(env: dict[str, Any]):
    bundle: Any = SimpleNamespace(
        path=Path("bundle"), manifest=SimpleNamespace(config={"env": env})
    )
    with pytest.raises(BundleError, match=r"asks to run code of its own choice; found env\."):
        reevaluate._refuse_foreign_code(bundle)
    bundle.manifest.config = {"env": {"name": "remote", "adapter": "point_mass", "python": ""}}
    reevaluate._refuse_foreign_code(bundle)


def test_a_path_may_be_the_working_folder(expert: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(expert)
    assert len(evaluate_path(Path(), episodes=2).success) == 2


def test_the_root_holds_no_policy():
    with pytest.raises(CheckpointError, match="holds no policy"):
        evaluate_path(Path("/"))


def test_another_device_than_the_runs_is_asked_for(expert: Path):
    config = expert.parent / "config.yaml"
    kept = [line for line in config.read_text().splitlines() if not line.startswith("device:")]
    config.write_text("\n".join([*kept, "device: cuda:99", ""]))
    with pytest.raises(DeviceError, match="cuda:99"):
        evaluate_path(expert, episodes=1)
    assert len(evaluate_path(expert, episodes=2, device="cpu").success) == 2


def test_that_the_world_is_another_by_now_is_said(expert: Path, capsys):
    assert evaluate_path(expert, episodes=1).protocol
    assert "another world" not in capsys.readouterr().err
    report = json.loads((expert / "report.json").read_text())
    report["world"]["simulator version: mujoco"] = "3.0.0"
    (expert / "report.json").write_text(json.dumps(report))
    evaluate_path(expert, episodes=1)
    assert "another world than it was made in: simulator version: mujoco: 3.0.0 → " in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"actions": "pose"}, "act"), ({"robot": "so101"}, "act, joint_pos")],
)
def test_a_world_with_other_actions_is_refused(expert: Path, changes: dict[str, Any], said: str):
    with pytest.raises(DataError, match=f"00-expert: holds other arrays.*world has: {said}"):
        evaluate_path(expert, episodes=1, world_changes={"task": changes})


@pytest.mark.parametrize("wrong", [{"episodes": 10**22}, {"episodes": 0}, {"seed": -1}])
def test_a_protocol_that_is_none_is_refused(expert: Path, wrong: dict[str, Any]):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        evaluate_path(expert, **wrong)


def test_a_world_without_what_the_policy_reads_is_refused(expert: Path):
    obs = ObsSpec(items={"nowhere": TensorSpec(shape=(2,))})
    wanted = validate(EXPERIMENT, Experiment, HAS_RUN)
    with closing(wanted.make_env(1)) as env, pytest.raises(DataError, match="nowhere is not there"):
        check_policy_in_world(expert, obs, env.act_spec, wanted)
