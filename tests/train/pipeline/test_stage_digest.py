"""What the result of a stage depends on."""

from __future__ import annotations

from typing import Any

from small_runs import EXPERIMENT, STAGES

from robo_rl.config.models import validate
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.stage_digest import stage_digest


def experiment(**changes: Any) -> Experiment:
    return validate({**EXPERIMENT, **changes}, Experiment)


def test_the_digest_of_a_stage_is_that_of_the_road_up_to_it():
    base = experiment()
    bc = stage_digest(base, 1)

    def changed(**changes: Any) -> str:
        return stage_digest(experiment(**changes), 1)

    def stages(**fields: Any) -> dict[str, Any]:
        return {"stages": {**STAGES, **fields}}

    assert changed() == bc
    assert changed(name="other") == bc
    assert changed(waive={"bc": "another reason"}) == bc
    assert changed(**stages(online={**STAGES["online"], "updates": 3})) == bc
    others = [
        changed(seed=1),
        changed(gamma=0.9),
        changed(eval={"episodes": 9}),
        changed(task={**EXPERIMENT["task"], "success_m": 0.1}),
        changed(policy={**EXPERIMENT["policy"], "num_steps": 3}),
        changed(**stages(collect={**STAGES["collect"], "noise": 0.1})),
        changed(**stages(bc={**STAGES["bc"], "steps": 61})),
        stage_digest(base, 2),
    ]
    assert len({bc, *others}) == len(others) + 1


def test_demonstrations_do_not_depend_on_who_learns_from_them():
    def digest(index: int, **changes: Any) -> str:
        return stage_digest(experiment(**changes), index)

    task = {**EXPERIMENT["task"], "success_m": 0.1}
    other = {"policy": {"name": "gaussian"}, "gamma": 0.5, "eval": {"episodes": 9}}
    assert digest(0, **other) == digest(0)
    assert digest(1, **other) != digest(1)
    assert digest(0, seed=1) != digest(0) != digest(0, task=task)
