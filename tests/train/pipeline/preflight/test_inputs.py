"""Files that stages read beside those of their run are checked before the first stage begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_runs import EXPERIMENT, write_experiment

from robo_rl.config.models import validate
from robo_rl.core.errors import RoboRlError
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.run import run_experiment
from robo_rl.train.pipeline.stage import Context
from robo_rl.train.stages.init_policy import InitPolicy

COLLECT = {"collect": EXPERIMENT["stages"]["collect"]}
SCRATCH = {"scratch": {"num_envs": 2, "steps": 4}}


def run(place: Path, stages: dict[str, Any], **changes: Any) -> None:
    tree = write_experiment(place, stages=stages, waive={}, **changes)
    run_experiment(str(tree), [], place / "runs")


@pytest.mark.parametrize(
    ("stages", "key", "says"),
    [
        (
            {**SCRATCH, "dataset": {}, "export": {}},
            "path",
            r"stages\.dataset: .*no dataset",
        ),
        ({**COLLECT, "policy": {}, "export": {}}, "path", r"stages\.policy: .*nowhere"),
        ({**SCRATCH, "opd": {}}, "teacher", r"stages\.opd: .*no teacher.*nowhere"),
        ({**COLLECT, "bc": {}}, "pretrained", r"stages\.bc: .*nowhere: no such folder"),
    ],
)
def test_a_missing_one_is_named_before_a_stage_runs(
    tmp_path: Path, stages: dict[str, Any], key: str, says: str
):
    reader = list(stages)[1]
    with pytest.raises(RoboRlError, match=says):
        run(tmp_path, {**stages, reader: {key: str(tmp_path / "nowhere")}})
    assert not (tmp_path / "runs").exists()


def test_a_policy_of_other_settings_is_refused_before_a_stage_runs(tmp_path: Path):
    own = validate({**EXPERIMENT, "stages": SCRATCH, "waive": {}}, Experiment)
    made = Context(own, tmp_path / "made", [])
    InitPolicy(InitPolicy.Config(num_envs=2, steps=4)).run(made).write(tmp_path / "made")
    stages = {**COLLECT, "policy": {"path": str(tmp_path / "made")}, "export": {}}
    wider = {**EXPERIMENT["policy"], "horizon": 8}
    with pytest.raises(RoboRlError, match=r"another policy\.horizon"):
        run(tmp_path, stages, policy=wider)
    assert not (tmp_path / "runs").exists()
