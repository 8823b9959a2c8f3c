"""The loop of fine-tuning: what changes on the way is taken up where it was left."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import EXPERIMENT, STAGES, Runner, write_experiment

from robo_rl.algo.advantages.gae import ReturnScale
from robo_rl.config.models import ConfigTree, validate
from robo_rl.core.errors import CheckpointError, ConfigError, PluginError
from robo_rl.data.normalize import Normalizer
from robo_rl.env.mujoco.sim_env import SimEnv
from robo_rl.train.checkpoint.policies import load_policy
from robo_rl.train.checkpoint.series import CheckpointSeries
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.run import run_experiment
from robo_rl.train.pipeline.stage import Context, Report
from robo_rl.train.rl import collector
from robo_rl.train.rl.loop import Loop

UPDATES = 5
CHANGING: dict[str, Any] = {
    "policy": {
        **EXPERIMENT["policy"],
        "sampler": {"name": "flow_noise", "std_min": 0.05, "std_max": {"start": 0.3, "end": 0.1}},
        "correlation": {"start": 0.5, "noise": {"start": 0.9, "end": 0.5, "shape": "linear"}},
    },
    "stages": {
        "collect": STAGES["collect"],
        "bc": {**STAGES["bc"], "steps": 10, "checkpoint_every": 10},
        "online": {**STAGES["online"], "updates": UPDATES, "guard": {"final_episodes": 8}},
    },
    "waive": dict.fromkeys(["collect", "bc", "online"], "too short to pass"),
}
AVERAGED = {
    "group_size": 4,
    "minibatch": 64,
    "ema_decay": 0.8,
    "proximal_ema": 0.5,
    "regularization": {"reverse_kl": 0.01, "bc_reference": 0.001},
}
GROUPED = {
    **CHANGING,
    "policy": EXPERIMENT["policy"],
    "stages": {
        **CHANGING["stages"],
        "online": {**CHANGING["stages"]["online"], "algo": AVERAGED},
    },
}


def test_frozen_steps_whose_inputs_change_have_no_ratio_to_earlier_rollouts():
    online = {**STAGES["online"], "running_obs_stats": True, "algo": {"reused_rollouts": 1}}
    stages = {**STAGES, "online": {**online, "exploration": {"finetune_steps": 1}}}
    with pytest.raises(ConfigError, match="these have no ratio"):
        validate({**EXPERIMENT, "stages": stages}, Experiment)
    stages = {**STAGES, "online": {**online, "exploration": {"finetune_steps": 0}}}
    validate({**EXPERIMENT, "stages": stages}, Experiment)


def outcome(out: Path) -> tuple[list[dict[str, Any]], str]:
    """Metrics without their timings, and the hash of the weights."""
    stage = out / "tiny" / "02-online"
    rows = [json.loads(line) for line in (stage / "metrics.jsonl").read_text().splitlines()]
    rows = [{k: v for k, v in row.items() if not k.endswith("_s")} for row in rows]
    weights = (stage / "policy" / "tensors.safetensors").read_bytes()
    return rows, hashlib.sha256(weights).hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [CHANGING, GROUPED], ids=["annealed-and-correlated", "groups-averages-anchors"]
)
def test_training_goes_on_after_a_kill(runner: Runner, tmp_path: Path, changes: dict[str, Any]):
    config = write_experiment(tmp_path, **changes)
    for name in ("whole", "killed"):
        status, output = runner.run("run", config, "--until", "bc", "--out", tmp_path / name)
        assert status == 0, output
    whole = ("run", config, "--out", tmp_path / "whole")
    killed = ("run", config, "--out", tmp_path / "killed")

    def after_two_updates() -> None:
        deadline = time.monotonic() + 100
        checkpoint = tmp_path / "killed" / "tiny" / "02-online" / "ckpt" / "000002"
        while not checkpoint.exists() and time.monotonic() < deadline:
            time.sleep(0.001)

    status, output = runner.run(*killed, kill_when=after_two_updates)
    assert status == -9, output
    for words in (whole, killed):
        status, output = runner.run(*words)
        assert status == 0, output
    rows, weights = outcome(tmp_path / "whole")
    assert len(rows) == UPDATES
    errors = [row["ratio_error"] for row in rows if "ratio_error" in row]
    assert errors
    assert max(errors) < 1e-3
    assert outcome(tmp_path / "killed") == (rows, weights)
    described = [tmp_path / name / "tiny" / "02-online" / "policy" for name in ("whole", "killed")]
    assert len({(place / "meta.json").read_text() for place in described}) == 1
    assert saved_is_judged(tmp_path / "whole" / "tiny" / "02-online")


def saved_is_judged(stage: Path) -> bool:
    """The kept policy has the averaged weights, where an average is kept, else the last ones.

    Where the choice without noise kept the initial policy, it has that one's weights.
    """
    state = CheckpointSeries(stage / "ckpt").load_latest()
    assert state is not None
    actor, saved = state["algo"]["actor"], load_policy(stage / "policy").state_dict()
    judged = actor["average"]["module"] if "average" in actor else actor["policy"]
    if json.loads((stage / "report.json").read_text())["numbers"]["ended_with"] == "initial":
        judged = load_policy(stage.parent / "01-bc" / "policy").state_dict()
    return all(torch.equal(value, saved[name]) for name, value in judged.items())


@pytest.mark.slow
def test_looking_on_the_way_changes_nothing(tmp_path: Path):
    """Nor does where it is looked from: every second of five updates."""
    found = {}
    for every in (0, 2):
        online = {
            **STAGES["online"],
            "updates": 5,
            "periodic_eval": {"every": every, "episodes": 5},
        }
        stages = {**CHANGING["stages"], "online": online}
        tree = ConfigTree({**EXPERIMENT, "stages": stages, "waive": CHANGING["waive"]}, {})
        run_experiment(tree, [], tmp_path / str(every))
        found[every] = outcome(tmp_path / str(every))
    (plain, weights), (looked, same) = found[0], found[2]
    clean = [
        {name: row.pop(name) for name in list(row) if name.startswith("eval/")} for row in looked
    ]
    assert looked == plain
    assert weights == same
    assert [row.get("eval/episodes", 0) for row in clean] == [0, 5, 0, 5, 5]
    assert all(0.0 <= row["eval/success"] <= 1.0 for row in clean if row)


def test_the_report_says_which_policy_training_ended_with(tmp_path: Path):
    stages = {**STAGES, "online": {**STAGES["online"], "updates": 2}}
    experiment = validate({**EXPERIMENT, "stages": stages}, Experiment)
    with closing(experiment.make_env(1)) as env:
        specs = env.obs_spec, env.act_spec
    ended = []
    for credit in (-math.inf, 2.0):  # a credit that no success rate comes up to
        context = Context(experiment, tmp_path / str(credit), [])
        policy = experiment.policy.build(*specs, Normalizer.identity(*specs))
        loop = Loop(experiment.stages["online"].cfg, context, policy)
        loop.guard.best_score = credit
        first = copy.deepcopy(policy.state_dict())
        loop.train()
        same = all(torch.equal(value, first[key]) for key, value in policy.state_dict().items())
        ended.append((loop.ended_with, same))
    assert ended == [("last", False), ("best", True)]


def test_a_loop_that_is_resumed_at_its_end_explores_as_it_did_there(tmp_path: Path):
    """As after a kill within the evaluations that follow the last update."""
    online = {**STAGES["online"], "updates": 2}
    stages = {"scratch": {}, "online": online}
    changes = {"policy": CHANGING["policy"], "stages": stages, "waive": {}}
    experiment = validate({**EXPERIMENT, **changes}, Experiment)
    with closing(experiment.make_env(1)) as env:
        specs = env.obs_spec, env.act_spec
    found = []
    for _ in range(2):
        policy = experiment.policy.build(*specs, Normalizer.identity(*specs))
        Loop(experiment.stages["online"].cfg, Context(experiment, tmp_path, []), policy).train()
        found.append(policy.progress)
    assert found[1] == found[0] > 0.0


OFF_POLICY = {"algo": {"name": "td3", "warmup_decisions": 10**6}}


@pytest.mark.parametrize("branches", [True, False])
@pytest.mark.parametrize("changes", [{}, {"shards": 2}, OFF_POLICY], ids=["ppo", "shards", "td3"])
def test_returns_go_on_with_their_episodes_and_end_with_those_a_resume_cuts_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], branches: bool
):
    monkeypatch.setattr(collector, "can_branch", lambda _: branches)

    def begin(updates: int) -> tuple[Loop, ReturnScale]:
        online = {**STAGES["online"], "updates": updates, **changes}
        policy = {**EXPERIMENT["policy"], "finetune_steps": 1}
        body = {**EXPERIMENT, "policy": policy, "stages": {"scratch": {}, "online": online}}
        experiment = validate({**body, "waive": {}}, Experiment)
        with closing(experiment.make_env(1)) as env:
            specs = env.obs_spec, env.act_spec
        acting = experiment.policy.build(*specs, Normalizer.identity(*specs))
        cfg = experiment.stages["online"].cfg
        loop = Loop(cfg, Context(experiment, tmp_path, []), acting)
        algo: Any = loop.algo
        return loop, getattr(algo, "advantage_estimator", algo).scale

    loop, scale = begin(1)
    loop.train()
    assert scale.running.any()
    again, resumed = begin(2)
    again.collector.close()
    wanted = scale.running if branches else torch.zeros_like(scale.running)
    assert torch.equal(resumed.running, wanted)
    assert resumed.std == scale.std


@pytest.mark.parametrize("part", ["_resume", "_update"])
def test_a_run_that_fails_closes_its_envs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
):
    closed: list[object] = []
    close = collector.Collector.close

    def closing_it(self: collector.Collector) -> None:
        closed.append(self)
        close(self)

    def fail(*_: object) -> None:
        raise PluginError("it broke")

    monkeypatch.setattr(collector.Collector, "close", closing_it)
    monkeypatch.setattr(Loop, part, fail)
    experiment = validate({**EXPERIMENT, "waive": {}}, Experiment)
    with closing(experiment.make_env(1)) as env:
        specs = env.obs_spec, env.act_spec
    acting = experiment.policy.build(*specs, Normalizer.identity(*specs))
    with pytest.raises(PluginError, match="it broke"):
        Loop(experiment.stages["online"].cfg, Context(experiment, tmp_path, []), acting).train()
    assert len(closed) == 1


def test_a_budget_of_env_steps_ends_the_run_with_the_update_that_reaches_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    block = 8 * 3 * 4
    online = {**STAGES["online"], "updates": 50, "env_steps": 2 * block + 1}
    stages = {**CHANGING["stages"], "online": online}
    tree = ConfigTree({**EXPERIMENT, "stages": stages, "waive": CHANGING["waive"]}, {})
    run_experiment(tree, [], tmp_path)
    rows, _ = outcome(tmp_path)
    assert rows[-1]["env_steps"] > 2 * block >= rows[-2]["env_steps"]
    assert "fine-tune: 3/3 updates" in capsys.readouterr().err  # and not of 50


def test_a_threshold_ends_training_after_an_evaluation_without_exploration(tmp_path: Path):
    online = {**STAGES["online"], "stop_return": -1e9, "updates": 4, "decisions": 10}
    stages = {"scratch": {}, "online": {**online, "stop_episodes": 1, "stop_confirm": 5}}
    experiment = validate({**EXPERIMENT, "stages": stages, "waive": {}}, Experiment)
    with closing(experiment.make_env(1)) as env:
        specs = env.obs_spec, env.act_spec
    policy = experiment.policy.build(*specs, Normalizer.identity(*specs))
    Loop(experiment.stages["online"].cfg, Context(experiment, tmp_path, []), policy).train()
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert len(rows) == 2  # no episode ends in the first one
    assert ["stop/return" in row for row in rows] == [False, True]


def test_a_noise_that_breaks_the_policy_is_told_on_the_way(tmp_path: Path, capsys):
    """Of a policy said to succeed, whose untrained weights hardly ever do."""
    online = {**STAGES["online"], "num_envs": 64, "decisions": 10}
    stages = {"scratch": {}, "online": online}
    experiment = validate({**EXPERIMENT, "stages": stages, "waive": {}}, Experiment)
    with closing(experiment.make_env(1)) as env:
        specs = env.obs_spec, env.act_spec
    told = []
    for low in (0.99, 0.0):
        made = Report("bc", {"success": {"low": low, "high": 1.0}}, {"policy": "policy"})
        context = Context(experiment, tmp_path / str(low), [(tmp_path, made)])
        policy = experiment.policy.build(*specs, Normalizer.identity(*specs))
        Loop(experiment.stages["online"].cfg, context, policy).train()
        told.append("narrow it" in capsys.readouterr().err)
    assert told == [True, False]


@pytest.mark.slow
def test_simulated_rows_are_weighed_beside_those_of_the_dataset(tmp_path: Path):
    algo = {
        "name": "td3",
        "warmup_decisions": 0,
        "utd_ratio": 0.5,
        "minibatch": 32,
        "critic": {"hidden": [16]},
        "dynamics_gap": {"hidden": [16]},
    }
    online = {**STAGES["online"], "algo": algo}
    stages = {**CHANGING["stages"], "online": online}
    policy = {**EXPERIMENT["policy"], "finetune_steps": 1}
    tree = {**EXPERIMENT, "policy": policy, "stages": stages, "waive": CHANGING["waive"]}
    run_experiment(ConfigTree(tree, {}), [], tmp_path)
    rows, _ = outcome(tmp_path)
    assert len(rows) == STAGES["online"]["updates"]
    assert all(0.0 < row["simulated_weight"] < 1.0 for row in rows)
    assert all(row["gap_outcome_loss"] > 0.0 for row in rows)
    assert all(0.0 < row["rew/reach"] < 1.0 for row in rows)


@pytest.mark.parametrize(
    ("fault", "raised"),
    [
        (RuntimeError("the simulator is gone"), (RuntimeError, "the simulator is gone")),
        (KeyError("changes"), (CheckpointError, "does not fit the code of today.*changes")),
    ],
)
def test_an_env_that_fails_as_it_is_restored_is_not_taken_for_an_unfit_checkpoint(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: Exception,
    raised: tuple[type[Exception], str],
):
    """A snapshot of other parts is one line still: older code made it."""
    stages = {"scratch": {}, "online": {**STAGES["online"], "updates": 1}}
    experiment = validate({**EXPERIMENT, "stages": stages, "waive": {}}, Experiment)
    with closing(experiment.make_env(1)) as env:
        specs = env.obs_spec, env.act_spec

    def train() -> None:
        policy = experiment.policy.build(*specs, Normalizer.identity(*specs))
        Loop(experiment.stages["online"].cfg, Context(experiment, tmp_path, []), policy).train()

    train()

    def restore(self: Any, snapshot: Any) -> None:
        raise fault

    monkeypatch.setattr(SimEnv, "restore", restore)
    kind, says = raised
    with pytest.raises(kind, match=says):
        train()
