"""From nothing to a clone: scratch, an expert by SAC, its episodes, a policy of another kind."""

from __future__ import annotations

import copy
import hashlib
import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import EXPERIMENT, STAGES, Runner, write_experiment

from robo_rl.config.models import ConfigTree, validate
from robo_rl.core.errors import ConfigError
from robo_rl.core.spec import ActSpec
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.train.checkpoint.policies import load_policy
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.run import run_experiment
from robo_rl.train.pipeline.stage import Context
from robo_rl.train.rl.guard.collapse_guard import CollapseGuard
from robo_rl.train.stages.init_policy import InitPolicy

NET = {"name": "mlp", "width": 16, "depth": 1}
GAUSSIAN = {
    "name": "gaussian",
    "horizon": 1,
    "exec_horizon": 1,
    "net": NET,
    "sampler": {"name": "gaussian", "std_min": 0.02, "std_max": 0.5},
}
SAC = {
    "name": "sac",
    "critic": {"members": 2, "hidden": [16]},
    "minibatch": 16,
    "warmup_decisions": 32,
    "utd_ratio": 0.1,
    "replay": {"capacity": 500},
}
EXPERT = {
    "name": "online",
    "num_envs": 8,
    "decisions": 10,
    "updates": 4,
    "checkpoint_every": 1,
    "running_obs_stats": True,
    "algo": SAC,
    "guard": {"final_episodes": 0},
}
ROAD = {
    "scratch": {"policy": GAUSSIAN, "num_envs": 4, "steps": 20},
    "expert": EXPERT,
    "record": {"episodes": 6, "num_envs": 4},
    "bc": {**STAGES["bc"], "only_success": False},
    "online": {
        **STAGES["online"],
        "algo": {**SAC, "replay": {"capacity": 500, "demo_fraction": 0.5}},
    },
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    protocol = {**EXPERIMENT["eval"], "measure": "return"}
    waive = dict.fromkeys(("expert", "bc", "online"), "too short to pass")
    return write_experiment(tmp_path, stages=ROAD, eval=protocol, waive=waive)


def test_a_policy_of_one_kind_is_cloned_into_one_of_another(
    runner: Runner, config: Path, tmp_path: Path
):
    ended = runner.run("run", config, "--out", tmp_path / "whole")
    assert ended.status == 0, ended.output
    run = tmp_path / "whole" / "tiny"
    scratch, expert = (load_policy(run / stage / "policy") for stage in ("00-scratch", "01-expert"))
    clone, tuned = (load_policy(run / stage / "policy") for stage in ("03-bc", "04-online"))
    assert [policy.family for policy in (scratch, expert, clone, tuned)] == [
        "gaussian", "gaussian", "flow", "flow",
    ]  # fmt: skip
    assert set(scratch.normalizer.modes.values()) == {"standard", "min_max"}
    assert scratch.normalizer.stats_hash != expert.normalizer.stats_hash
    assert clone.normalizer.stats_hash == tuned.normalizer.stats_hash
    limits = torch.tensor([scratch.act_spec.low, scratch.act_spec.high])
    ends = scratch.normalizer.normalize("act", limits)
    torch.testing.assert_close(ends, torch.tensor([[-1.0], [1.0]]).expand_as(ends))
    assert len(ZarrStore.open(run / "02-record" / "data.zarr").episodes) == 6

    def number(stage: str, name: str) -> Any:
        return json.loads((run / stage / "report.json").read_text())["numbers"][name]

    assert number("01-expert", "return_before")["n"] == 8
    assert number("02-record", "return")["n"] == 6
    # asked at every step here, at every fourth there
    assert number("01-expert", "return")["protocol"] != number("04-online", "return")["protocol"]


def test_a_policy_that_goes_back_sees_the_world_as_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    seen: list[dict[str, Any]] = []

    def back_from_the_third(_: CollapseGuard, *outcome: Any) -> dict[str, Any] | None:
        seen.append(copy.deepcopy(outcome[-1]))
        return copy.deepcopy(seen[0]) if len(seen) == 3 else None

    monkeypatch.setattr(CollapseGuard, "observe", back_from_the_third)
    monkeypatch.setattr(CollapseGuard, "finish", lambda _, state: seen.append(state))
    stages = {"scratch": ROAD["scratch"], "expert": {**EXPERT, "updates": 3}}
    tree = ConfigTree({**EXPERIMENT, "stages": stages, "waive": {"expert": "too short"}}, {})
    run_experiment(tree, [], tmp_path)
    tracked = [state["obs_stats"]["mean"]["obs.joint_pos"] for state in seen]
    assert torch.equal(tracked[3], tracked[0])
    assert not torch.equal(tracked[2], tracked[0])


def outcome(stage: Path) -> tuple[list[dict[str, Any]], str]:
    """Metrics without their timings, and the hash of the weights."""
    rows = [json.loads(line) for line in (stage / "metrics.jsonl").read_text().splitlines()]
    rows = [{k: v for k, v in row.items() if not k.endswith("_s")} for row in rows]
    weights = (stage / "policy" / "tensors.safetensors").read_bytes()
    return rows, hashlib.sha256(weights).hexdigest()


@pytest.mark.slow
def test_off_policy_learning_goes_on_after_a_kill(runner: Runner, config: Path, tmp_path: Path):
    """Replay, critics, temperature and the statistics of observations are as they were."""
    words = {name: ("run", config, "--out", tmp_path / name) for name in ("whole", "killed")}

    def after_two_updates() -> None:
        deadline = time.monotonic() + 100
        checkpoint = tmp_path / "killed" / "tiny" / "01-expert" / "ckpt" / "000002"
        while not checkpoint.exists() and time.monotonic() < deadline:
            time.sleep(0.001)

    ended = runner.run(*words["killed"], "--until", "expert", kill_when=after_two_updates)
    assert ended.status == -9, ended.output
    for name in ("whole", "killed"):
        ended = runner.run(*words[name], "--until", "expert")
        assert ended.status == 0, ended.output
    rows, weights = outcome(tmp_path / "whole" / "tiny" / "01-expert")
    assert len(rows) == EXPERT["updates"]
    assert rows[-1]["gradient_steps"] == 32
    assert outcome(tmp_path / "killed" / "tiny" / "01-expert") == (rows, weights)


def test_actions_without_limits_are_refused(tmp_path: Path):
    experiment = validate(EXPERIMENT, Experiment)
    real = experiment.make_env

    def without_limits(num_envs: int) -> Any:
        env = real(num_envs)
        env.act_spec = ActSpec(shape=env.act_spec.shape, rate_hz=env.act_spec.rate_hz)
        return env

    object.__setattr__(experiment, "make_env", without_limits)
    with pytest.raises(ConfigError, match="limits"):
        InitPolicy(InitPolicy.Config()).run(Context(experiment, tmp_path, []))
