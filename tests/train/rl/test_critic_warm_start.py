"""Online learning that begins with the critics that offline learning left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import STAGES, Runner, write_experiment

from robo_rl.algo.off_policy.td3 import Td3
from robo_rl.train.checkpoint import files as checkpoint

OFFLINE = {"critic_steps": 20, "steps": 10, "fqe": {"steps": 10}}
TD3 = {"name": "td3", "warm_start_critics": True, "scale_rewards": False, "warmup_decisions": 10**6}


def run(runner: Runner, folder: Path, *, offline: bool = True, **algo: Any) -> Any:
    collect = {**STAGES["collect"], "noise": 0.7}
    online = {**STAGES["online"], "algo": {**TD3, **algo}}
    before = {"collect": collect, "bc": STAGES["bc"], **({"offline": OFFLINE} if offline else {})}
    stages = {**before, "online": online}
    waive = dict.fromkeys(stages, "too short to pass")
    config = write_experiment(folder, stages=stages, waive=waive)
    return runner.run("run", config, "--out", folder / "runs")


def test_critics_go_on_from_those_of_the_stage_before(runner: Runner, tmp_path: Path):
    """Nothing was learnt, since it is all warm-up: what is kept is what was handed over."""
    ended = run(runner, tmp_path)
    assert ended.status == 0, ended.output
    place = tmp_path / "runs" / "tiny"
    left = checkpoint.load(place / "02-offline" / "critic").tensors
    (last,) = sorted((place / "03-online" / "ckpt").iterdir())[-1:]
    kept = checkpoint.load(last).tensors
    for name, weights in left.items():
        held = [x for key, x in kept.items() if key.endswith(f"net.{name}") and "critic" in key]
        assert held, name
        assert all(torch.equal(x, weights) for x in held), name


def test_without_a_stage_that_makes_them_there_is_nothing_to_inherit(
    runner: Runner, tmp_path: Path
):
    ended = run(runner, tmp_path, offline=False)
    assert ended.status == 2
    assert "there are no critics to begin from" in ended.output


def test_critics_of_other_sizes_are_refused(runner: Runner, tmp_path: Path):
    ended = run(runner, tmp_path, critic={"members": 3})
    assert ended.status == 2
    assert "of other sizes" in ended.output
    assert "Traceback" not in ended.output


def test_values_of_rewards_as_they_are_do_not_go_with_scaled_ones():
    with pytest.raises(ValueError, match="set scale_rewards to false"):
        Td3.Config(warm_start_critics=True)
