"""What the result of a stage depends on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_runs import EXPERIMENT, STAGES

from robo_rl.bench.suite.suite import cell_keys
from robo_rl.bench.suite.suite_file import load_plan, suite_names
from robo_rl.config.compose import compose
from robo_rl.config.differences import differences, effective_settings, paths_without_effect
from robo_rl.config.models import validate
from robo_rl.core.errors import DeviceError
from robo_rl.train.pipeline.experiment import HAS_RUN, Experiment
from robo_rl.train.pipeline.stage_digest import stage_digest
from robo_rl.train.pipeline.world_digest import world_of

CONFIGS = Path(__file__).parents[3] / "configs"
CARTPOLE = {"name": "gym", "id": "CartPole-v1"}
REMOTE = {"name": "remote", "adapter": "point_mass"}
PUSH = {"name": "metaworld", "task": "push-v3"}
FETCH = {"name": "gym_robotics"}
TIMES = {"step_timeout_s": 999.0, "start_timeout_s": 999.0}
STAGE_SETTINGS = [
    ("bc", {"checkpoint_every": 7}, {"batch": 65}),
    ("online", {"checkpoint_every": 7}, {"num_envs": 4}),
    ("offline", {"checkpoint_every": 7}, {"critic_steps": 2}),
    ("ope", {"checkpoint_every": 7}, {"evaluate": False}),
    ("success", {"checkpoint_every": 7}, {"min_rate": 0.1}),
]


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


@pytest.mark.parametrize(
    ("env", "idle", "counts"),
    [
        ({"name": "sim"}, {"backend": {"name": "mujoco_cpu", "threads": 1}}, {"lights": None}),
        ({"name": "sim"}, {"rendering": {"workers": 1, "timeout_s": 99.0}}, {"lights": None}),
        (CARTPOLE, TIMES, {"workers": 1}),
        (PUSH, {**TIMES, "workers": 1}, {"max_episode_steps": 9}),
        (FETCH, {**TIMES, "workers": 1}, {"max_episode_steps": 9}),
        (REMOTE, {**TIMES, "heartbeat_timeout_s": 99.0, "socket": "/s"}, {"workers": 2}),
    ],
)
def test_time_limits_and_threads_of_an_env_do_not_count(
    env: dict[str, Any], idle: dict[str, Any], counts: dict[str, Any]
):
    """``workers`` count where a worker's envs may share a random stream."""
    task = EXPERIMENT["task"] if env["name"] == "sim" else None
    lights = {"lights": {"pos_m": 0.1}, "cameras": [{"name": "front"}]}
    other = lights if "lights" in counts else counts

    def digest(**changes: Any) -> str:
        tree = {**EXPERIMENT, "task": task, "env": {**env, **changes}}
        return stage_digest(validate(tree, Experiment, HAS_RUN), 1)

    assert digest(**idle) == digest()
    assert digest(**other) != digest()


@pytest.mark.parametrize(("name", "idle", "other"), STAGE_SETTINGS)
def test_intervals_between_checkpoints_do_not_count(
    name: str, idle: dict[str, Any], other: dict[str, Any]
):
    def digest(**changes: Any) -> str:
        tree = {**EXPERIMENT, "stages": {name: changes}, "waive": {}}
        return stage_digest(validate(tree, Experiment, HAS_RUN), 0)

    assert digest(**idle) == digest()
    assert digest(**other) != digest()


def test_settings_without_effect_are_no_other_world():
    one, other = ({"backend": {"name": "mujoco_cpu", "threads": n}} for n in (1, 2))
    assert world_of(experiment(env=one)) == world_of(experiment(env=other))
    seen = {"cameras": [{"name": "front"}]}
    assert world_of(experiment(env=seen)) != world_of(experiment(env=one))


def shipped() -> dict[str, Experiment]:
    """Every experiment, and every cell of a suite's first seed."""
    found = {
        path.stem: validate(compose(str(path)), Experiment, HAS_RUN)
        for path in sorted((CONFIGS / "experiment").glob("*.yaml"))
    }
    for name in suite_names():
        plan = load_plan(name)
        for key in cell_keys(plan.suite, plan.suite.seeds[:1]):
            found[f"{name} {key}"] = plan.cell(key, has_run=True).experiment
    return found


def test_digests_of_our_own_experiments_are_those_of_all_their_settings():
    """Results and runs from before some settings were without effect stay valid."""
    try:
        every = shipped()
    except DeviceError as error:
        pytest.skip(str(error))
    changed: dict[str, set[str]] = {}
    for name, each in every.items():
        one, other = (made.model_dump(mode="json") for made in (each, effective_settings(each)))
        found = {difference.path for difference in differences(one, other)}
        assert found <= {*paths_without_effect(each)}
        if found:
            changed[name.split()[0]] = {".".join(map(str, path)) for path in found}
    assert changed == {"gym_growth": {"stages.expert.checkpoint_every"}}, "which its file sets"
