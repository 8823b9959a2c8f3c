"""What is said of two experiments of which one lies where the other is to go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_runs import EXPERIMENT, STAGES

from robo_rl.config.models import ConfigTree, to_yaml, validate
from robo_rl.core.errors import ConfigError
from robo_rl.train.pipeline.config_diff import changed_settings, stage_changes
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.run import run_experiment


def written(tmp_path: Path, **settings: Any) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(to_yaml(settings))
    return path


def test_only_what_differs_is_named_and_what_makes_no_other_stage_is_not(tmp_path: Path):
    then = written(tmp_path, name="a", waive={"bc": "x"}, seed=1, stages={"bc": {"steps": 3}})
    now = {"name": "b", "waive": {}, "seed": 1, "stages": {"bc": {"steps": 4, "batch": 2}}}
    said = changed_settings(then, now)
    assert said == "stages.bc.steps: 3 → 4; stages.bc.batch: unset → 2"
    same = written(tmp_path, name="a", seed=1)
    assert changed_settings(same, {"name": "b", "seed": 1}) is None


def test_a_waiver_is_named_first_where_a_stage_heeds_it(tmp_path: Path):
    then = written(tmp_path, seed=1, waive={"again": "then"})
    now = {"seed": 2, "waive": {"again": "now", "bc": "x", "offline": "I have seen it"}}
    said = changed_settings(then, now, heeded=["offline", "again"])
    assert said == "waive.offline: unset → I have seen it; seed: 1 → 2"
    assert changed_settings(then, now) == "seed: 1 → 2"


def test_of_many_differences_a_few_are_named_and_the_others_counted(tmp_path: Path):
    said = changed_settings(written(tmp_path, **{f"k{at}": at for at in range(9)}), {})
    assert said is not None
    assert said.endswith("k3: 3 → unset; and 5 more")


def test_nothing_is_said_of_what_cannot_be_read(tmp_path: Path):
    assert changed_settings(tmp_path / "nothing.yaml", {"seed": 1}) is None


def test_only_what_a_stage_depends_on_is_a_reason(tmp_path: Path):
    then = validate(EXPERIMENT, Experiment)
    path = written(tmp_path, **then.model_dump(mode="json"))
    stages = {name: dict(body) for name, body in EXPERIMENT["stages"].items()}
    stages["bc"]["steps"] += 1
    stages["online"]["updates"] += 1
    protocol = {**EXPERIMENT["eval"], "episodes": EXPERIMENT["eval"]["episodes"] + 1}
    now = validate({**EXPERIMENT, "stages": stages, "eval": protocol}, Experiment)
    labels = list(now.stages)
    steps = f"stages.bc.steps: {stages['bc']['steps'] - 1} → {stages['bc']['steps']}"
    assert stage_changes(path, now, labels.index("bc")) == steps
    assert "stages.online.updates" in str(stage_changes(path, now, labels.index("online")))
    fewer = {name: body for name, body in stages.items() if name in ("collect", "bc")}
    short = validate({**EXPERIMENT, "stages": fewer, "waive": {}}, Experiment)
    assert stage_changes(path, short, 1) == steps
    bare = written(tmp_path, name="a", stages=None)
    assert "stages" in str(stage_changes(bare, now, 0))
    path = written(tmp_path, **then.model_dump(mode="json"))
    other = validate({**EXPERIMENT, "eval": protocol}, Experiment)
    assert str(stage_changes(path, other, labels.index("bc"))).startswith("eval.episodes: ")


def test_settings_without_effect_are_no_reason(tmp_path: Path):
    then = validate(EXPERIMENT, Experiment)
    path = written(tmp_path, **then.model_dump(mode="json"))
    bc = {**EXPERIMENT["stages"]["bc"], "checkpoint_every": 7}
    env = {"backend": {"name": "mujoco_cpu", "threads": 1}}
    tree = {**EXPERIMENT, "env": env, "stages": {**EXPERIMENT["stages"], "bc": bc}}
    assert stage_changes(path, validate(tree, Experiment), 1) is None
    tree["stages"]["bc"]["batch"] = 65
    assert stage_changes(path, validate(tree, Experiment), 1) == "stages.bc.batch: 64 → 65"


def test_a_run_goes_on_under_other_settings_without_effect(tmp_path: Path):
    """And its numbers have the hash of one protocol."""
    waive = dict.fromkeys(("collect", "bc"), "too short to pass")

    def run(name: str, threads: int, **bc: int) -> list[dict[str, Any]]:
        env = {"backend": {"name": "mujoco_cpu", "threads": threads}}
        stages = {"collect": STAGES["collect"], "bc": {"steps": 2, "batch": 8, **bc}}
        tree = {**EXPERIMENT, "name": name, "env": env, "stages": stages, "waive": waive}
        return run_experiment(ConfigTree(tree, {}), [], tmp_path)["stages"]

    first, other = run("a", 1, checkpoint_every=1), run("b", 2)
    weights = tmp_path / "a" / "01-bc" / "policy"
    files = {path: path.stat().st_mtime_ns for path in weights.iterdir()}
    assert run("a", 2)[1]["numbers"] == first[1]["numbers"]
    assert {path: path.stat().st_mtime_ns for path in weights.iterdir()} == files
    hashes = {each[1]["numbers"]["success"]["protocol"] for each in (first, other)}
    assert len(hashes) == 1
    with pytest.raises(ConfigError, match=r"of another configuration.*bc\.batch: 8 → 9;") as caught:
        run("a", 1, batch=9)
    assert "threads" not in str(caught.value)
