"""Only simulations are filmed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from small_runs import EXPERIMENT

from robo_rl.config.models import validate
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.stage import Context
from robo_rl.train.stages.video import record_video


def test_an_env_that_is_no_simulation_is_not_even_made(tmp_path: Path):
    fields = {name: value for name, value in EXPERIMENT.items() if name != "task"}
    env = {"name": "gym", "id": "NobodyMadeThis-v0"}
    context = Context(validate({**fields, "env": env}, Experiment), tmp_path, [])
    assert record_video(context, cast(Any, None), "rollout.mp4") == {}
    assert not list(tmp_path.iterdir())
