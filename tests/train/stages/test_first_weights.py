"""A clone that begins with the policy of another run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import EXPERIMENT, STAGES, Runner, write_experiment

from robo_rl.config.models import validate
from robo_rl.core.errors import CheckpointError, ConfigError, DataError, SpecError
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.policies import load_policy, save_policy
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.preflight.inputs import check_inputs
from robo_rl.train.stages.behaviour_cloning import CloneBehaviour

PROCESSORS = Path(__file__).parents[2] / "nets" / "vla" / "lerobot" / "processors"
STAY = {"steps": 1, "optim": {"lr": 1e-12}, "checkpoint_every": 1}
"""One step that changes nothing."""


@pytest.fixture(scope="module")
def made(runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("first")
    stages = {"collect": STAGES["collect"], "bc": STAGES["bc"]}
    config = write_experiment(folder, stages=stages, waive={"bc": "short"})
    assert runner.run("run", config, "--out", folder / "runs").status == 0
    return folder / "runs" / "tiny"


def cloned(runner: Runner, made: Path, folder: Path, **bc: Any) -> DenoisingPolicy:
    """The policy after one step on other demonstrations, from the first clone."""
    stages = {
        "collect": {"episodes": 4, "num_envs": 4},
        "bc": {**STAY, "pretrained": str(made / "01-bc"), **bc},
    }
    config = write_experiment(folder, stages=stages, waive={"bc": "short"}, seed=7)
    done = runner.run("run", config, "--out", folder / "runs")
    assert done.status == 0, done.output
    return load_policy(folder / "runs" / "tiny" / "01-bc" / "policy")


def test_it_has_the_weights_and_if_asked_the_statistics(runner: Runner, made: Path, tmp_path: Path):
    base = load_policy(made / "01-bc" / "policy")
    (tmp_path / "kept").mkdir()
    (tmp_path / "own").mkdir()
    kept = cloned(runner, made, tmp_path / "kept", pretrained_statistics=True)
    own = cloned(runner, made, tmp_path / "own")
    for policy in (kept, own):
        for name, weight in base.net.state_dict().items():
            torch.testing.assert_close(policy.net.state_dict()[name], weight, rtol=0.0, atol=1e-6)
    for name in ("shift", "scale"):
        theirs = getattr(base.normalizer.affine("act"), name)
        assert torch.equal(getattr(kept.normalizer.affine("act"), name), theirs)
        assert not torch.equal(getattr(own.normalizer.affine("act"), name), theirs)


def test_kept_statistics_count_for_the_rows_that_moved_them(
    runner: Runner, made: Path, tmp_path: Path
):
    """Else the next rollouts would replace the statistics of a million rows."""
    moved = load_policy(made / "01-bc" / "policy")
    moved.normalizer.running_rows = 1e6
    save_policy(tmp_path / "moved", moved)
    for kept, rows in ((True, 1e6), (False, 0.0)):
        folder = tmp_path / str(kept)
        folder.mkdir()
        bc = {"pretrained": str(tmp_path / "moved"), "pretrained_statistics": kept}
        assert cloned(runner, made, folder, **bc).normalizer.running_rows == rows


def test_statistics_of_another_width_are_refused_before_demonstrations(made: Path, tmp_path: Path):
    policy, stage = load_policy(made / "01-bc" / "policy"), CloneBehaviour
    theirs = stage.Config(pretrained=str(PROCESSORS / "pi0"), pretrained_statistics=True)
    with pytest.raises(SpecError, match="statistics of another width"):
        stage.check_resources(theirs, policy, tmp_path)
    ours = stage.Config(pretrained=str(made / "01-bc"), pretrained_statistics=True)
    stage.check_resources(ours, policy, tmp_path)


def whole(path: Path, **policy: Any) -> Experiment:
    stages = {"dataset": {"path": "none"}, "bc": {"pretrained": str(path)}}
    changed = {**EXPERIMENT, "policy": {**EXPERIMENT["policy"], **policy}}
    found = validate({**changed, "stages": stages, "waive": {}}, Experiment)
    check_inputs({"bc": found.stages["bc"]}, found)
    return found


def test_a_clone_that_is_made_does_not_need_its_first_weights(
    runner: Runner, made: Path, tmp_path: Path
):
    """They may be gone, or on another machine; a clone that is to be made needs them."""
    gone = tmp_path / "gone"
    shutil.copytree(made / "01-bc", gone)
    stages = {**STAGES, "bc": {**STAY, "pretrained": str(gone)}}
    stages = {name: stages[name] for name in ("collect", "bc")}
    stages["variants"] = {"of": {"same": {}}, "episodes": 2}
    config = write_experiment(tmp_path, stages=stages, waive={"bc": "short"})
    done = runner.run("run", config, "--out", tmp_path / "runs", "--until", "bc")
    assert done.status == 0, done.output
    shutil.rmtree(gone)
    done = runner.run("run", config, "--out", tmp_path / "runs")
    assert done.status == 0, done.output
    for words in (("run", config, "name=other", "--out", tmp_path / "runs"), ("config", config)):
        done = runner.run(*words)
        assert done.status == 2
        assert "stages.bc" in done.output
        assert "no such folder" in done.output


def test_another_policy_is_refused_before_a_simulator_starts(made: Path, tmp_path: Path):
    with pytest.raises(DataError, match=r"another policy\.horizon.*set policy\.horizon=4"):
        whole(made / "01-bc", horizon=8)
    whole(made / "01-bc", sampler={"name": "flow_noise", "std_max": 0.5})  # no part of a clone
    with pytest.raises(ConfigError, match=r"config\.json.*is not in the folder"):
        whole(tmp_path)
    with pytest.raises(ConfigError, match=r"no such folder.*a policy or a stage of a run"):
        whole(tmp_path / "none")
    spoilt = tmp_path / "policy"
    save_policy(spoilt, load_policy(made / "01-bc" / "policy"))
    (spoilt / "tensors.safetensors").write_bytes(b"none")
    with pytest.raises(CheckpointError, match=r"tensors\.safetensors"):
        whole(spoilt)


def test_a_policy_that_keeps_its_first_steps_is_refused(made: Path, tmp_path: Path):
    policy = load_policy(made / "01-bc" / "policy")
    policy.cfg = policy.cfg.model_copy(update={"finetune_steps": 1})
    policy.freeze_reference()
    save_policy(tmp_path / "policy", policy)
    with pytest.raises(ConfigError, match=r"policy\.finetune_steps"):
        whole(tmp_path / "policy")
