"""What an experiment says of its stages, and what cannot work, known before anything runs."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from small_runs import EXPERIMENT, STAGES

from robo_rl.config.models import compose, validate
from robo_rl.core.errors import ConfigError, SpecError
from robo_rl.policy.families.flow import FlowPolicy
from robo_rl.train.pipeline.experiment import HAS_RUN, Experiment, run_until
from robo_rl.train.stages.init_policy import InitPolicy

POLICY = EXPERIMENT["policy"]
LOUD = {**POLICY, "name": "diffusion", "num_steps": 5, "eval_eta": 1.0}


def experiment(**changes: Any) -> Experiment:
    return validate({**EXPERIMENT, **changes}, Experiment)


def online(**fields: Any) -> dict[str, Any]:
    return {"stages": {**STAGES, "online": {**STAGES["online"], **fields}}}


def test_a_stage_is_called_by_its_label_unless_it_has_a_name():
    stages = {"collect": None, "first": {"name": "bc", "steps": 7}, "second": "bc"}
    found = experiment(stages=stages, waive={}).stages
    assert {label: each.name for label, each in found.items()} == {
        "collect": "collect",
        "first": "bc",
        "second": "bc",
    }
    assert found["first"].cfg.steps == 7


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"task": None, "env": {"name": "latency"}}, "task: env 'sim' runs a task: set task"),
        ({"task": None}, "task: env 'sim' runs a task: set task; robo-rl list tasks names them"),
        (
            {"env": {"name": "gym", "id": "Pendulum-v1"}},
            "task: env 'gym' runs no task: set task to",
        ),
        ({"stages": {}}, "stages"),
        ({"stages": {"colect": {}}, "waive": {}}, "did you mean 'collect'"),
        ({"waive": {"online": " "}}, "waive.online: a waiver needs a reason"),
        ({"waive": {"onlin": "why"}}, "no stage 'onlin'; did you mean 'online'"),
        ({"stages": {"a/b": {"name": "bc"}}, "waive": {}}, "stage 'a/b': expected at most 100"),
        ({"stages": {"..": {"name": "bc"}}, "waive": {}}, r"stage '\.\.': expected"),
        ({"stages": {"bc": {"step": 3}}, "waive": {}}, r"stages\.bc\.step: unknown key"),
        ({"task": {"name": "reach", "robot": "pand"}}, "did you mean 'panda'"),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], says: str):
    with pytest.raises(ConfigError, match=says):
        experiment(**changes)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            online(exploration={"finetune_steps": 9}),
            "stages.online: .*finetune_steps 9, num_steps 2",
        ),
        (online(exploration={"sampler": "ddpm"}), "stages.online: .*'ddpm' expects noise"),
        (online(algo={"group_size": 3}), "stages.online: .* multiple of the group size 3, found 8"),
        (
            {"policy": {**POLICY, "finetune_steps": 1}, **online(algo={"ratio": "cfm"})},
            "stages.online: ratio 'cfm' trains the whole chain",
        ),
        ({"policy": LOUD, **online(algo="td3")}, "stages.online: algorithm 'td3' needs a"),
        (
            {"policy": {**POLICY, "name": "tokens", "num_steps": 28}, **online(algo="td3")},
            "stages.online: a critic's gradient does not reach",
        ),
        (
            {
                "policy": {**POLICY, "name": "tokens"},
                "stages": {"collect": None, "bc": None, "export": {"inpaint": True}},
                "waive": {},
            },
            "stages.export: export.inpaint: tokens cannot be guided",
        ),
        (
            online(process_reward={"weight": 1.0}),
            "stages.online: no earlier stage makes the success",
        ),
        (
            {"policy": {**POLICY, "sampler": "flow_ode"}},
            "stages.online: no denoising step is both stochastic and trained",
        ),
        (
            {
                "policy": {**POLICY, "sampler": "flow_ode"},
                **online(algo={"name": "td3", "regularization": {"forward_kl": 1.0}}),
            },
            "stages.online: regularization needs a trained step with noise",
        ),
        (online(algo={"name": "sac", "target_std": 9.0}), "stages.online: .*out of reach"),
        (
            {"launch": {"processes": 2}, **online(algo="td3")},
            "stages.online: launch: Td3 does not learn in several processes",
        ),
        (
            {"launch": {"processes": 2}, **online(algo={"reused_rollouts": 1})},
            "stages.online: algo.reused_rollouts: .* found 2 processes",
        ),
        (
            {"launch": {"processes": 3}},
            "stages.online: online.num_envs; expected a multiple of 3, found 8",
        ),
        (
            online(algo={"name": "td3", "warm_start_critics": True, "scale_rewards": False}),
            "stages.online: no earlier stage makes the critics",
        ),
        (
            online(algo={"name": "sac", "target_aggregation": {"mode": "subset_min", "subset": 3}}),
            "target_aggregation.subset: larger than the ensemble; expected at most 2, found 3",
        ),
        (
            online(
                algo={
                    "name": "sac",
                    "target_aggregation": {"mode": "quantile"},
                    "critic": {"head": {"kind": "categorical", "bounds": [0.0, 1.0]}},
                }
            ),
            "target_aggregation.mode: no member's law",
        ),
        (
            {"policy": {**POLICY, "name": "gaussian", "num_steps": 1}, **online(algo="nft")},
            "stages.online: algorithm 'nft' needs a policy that is cloned by undoing noise",
        ),
        (
            {"policy": {**POLICY, "name": "diffusion", "num_steps": 200}},
            "stages.online: more denoising steps than the schedule is long",
        ),
        ({"policy": LOUD}, r"stages\.distill: policy\.eval_eta: distillation needs"),
        ({"policy": {**POLICY, "net": {"width": 0}}}, "width: expected greater"),
        (
            {"policy": {**POLICY, "net": {"time_dim": 3}}},
            "time_dim: .* multiple of 2",
        ),
        ({"policy": {**POLICY, "net": {"name": "unet1d", "groups": 7}}}, "groups 7"),
        ({"seed": -1}, "seed: expected greater than or equal to 0"),
        ({"eval": {"seed": -1}}, "seed: expected greater than or equal to 0"),
    ],
)
def test_what_would_fail_in_a_later_stage_fails_at_once(changes: dict[str, Any], says: str):
    with pytest.raises(ConfigError, match=says):
        experiment(**changes)


@pytest.mark.parametrize(
    ("stages", "says"),
    [
        (["online"], r"stages\.online: no earlier stage makes the policy"),
        (["bc"], r"stages\.bc: no earlier stage makes the dataset"),
        (["scratch", "export"], r"stages\.export: no earlier stage makes the dataset"),
        (["distill", "collect"], r"stages\.distill: no earlier stage makes the policy"),
        (["record"], r"stages\.record: no earlier stage makes the policy"),
    ],
)
def test_a_stage_that_nothing_is_made_for_fails_at_once(stages: list[str], says: str):
    with pytest.raises(ConfigError, match=says):
        experiment(stages=dict.fromkeys(stages), waive={})


def test_a_beginning_behind_the_end_is_refused():
    stages = {**EXPERIMENT["stages"], "policy": {"path": "elsewhere"}}
    with pytest.raises(
        ConfigError, match=r"stages\.policy: no later stage uses its result .*policy"
    ):
        experiment(stages=stages)
    experiment(stages={"policy": {"path": "elsewhere"}}, waive={})
    used = {"policy": {"path": "elsewhere"}, "online": None}
    settings = {**EXPERIMENT, "stages": used, "waive": {}}
    assert validate(settings, Experiment, run_until("policy")).stages.keys() == used.keys()


@pytest.mark.parametrize(
    ("stages", "says"),
    [
        (["collect", "bc", "policy", "online"], r"stages\.bc: 'policy' replaces its policy"),
        (["collect", "bc", "scratch", "online"], r"stages\.bc: 'scratch' replaces its policy"),
        (["collect", "dataset", "bc"], r"stages\.collect: 'dataset' replaces its dataset"),
    ],
)
def test_a_result_that_is_replaced_before_a_stage_uses_it_is_refused(stages: list[str], says: str):
    elsewhere = {"path": "elsewhere"}
    known = {**EXPERIMENT["stages"], "policy": elsewhere, "dataset": elsewhere}
    with pytest.raises(ConfigError, match=says):
        experiment(stages={label: known.get(label) for label in stages}, waive={})


def test_a_result_that_is_used_before_it_is_replaced_is_accepted():
    """An expert records for a clone; rollouts follow demonstrations; two clones are compared.

    TD3 takes demonstrations up although it needs none.
    """
    expert = {"scratch": None, "online": None, "record": None, "bc": None}
    experiment(stages=expert, waive={})
    longer = {"scratch": None, "collect": None, "record": {"append": True}}
    experiment(stages=longer, waive={})
    experiment(stages={"collect": None, "first": {"name": "bc"}, "second": "bc"}, waive={})
    td3 = {"algo": {"name": "td3"}}
    again = {"scratch": None, "collect": None, "online": td3, "more": {"name": "collect"}}
    experiment(stages={**again, "bc": None}, waive={})


def test_a_policy_that_no_bundle_would_have_is_refused():
    names = ["collect", "bc", "distill", "export", "online"]
    stages = {label: EXPERIMENT["stages"].get(label) for label in names}
    settings = {**EXPERIMENT, "stages": stages, "waive": {}}
    says = r"stages\.online: the bundle of 'export' does not have its policy.* 'export: \{\}'"
    with pytest.raises(ConfigError, match=says):
        validate(settings, Experiment)
    validate(settings, Experiment, run_until("export"))
    validate({**settings, "stages": {**stages, "export_again": {"name": "export"}}}, Experiment)


def test_a_stage_that_is_not_to_be_run_is_not_asked():
    stages = {"collect": None, "bc": None, "distill": None, "record": None}
    settings = {**EXPERIMENT, "policy": LOUD, "stages": stages, "waive": {}}
    for until in (None, "distill", "record"):
        with pytest.raises(ConfigError, match=r"stages\.distill"):
            validate(settings, Experiment, run_until(until))
    assert len(validate(settings, Experiment, run_until("bc")).stages) == 4


def test_of_what_has_run_it_is_not_asked_whether_it_can():
    stages = {**EXPERIMENT, "stages": {"export": {}}, "waive": {}}
    assert list(validate(stages, Experiment, HAS_RUN).stages) == ["export"]
    with pytest.raises(ConfigError, match="no stage 'expor'"):  # all else is checked
        validate({**stages, "waive": {"expor": "why"}}, Experiment, HAS_RUN)


def test_all_stages_that_would_fail_are_told_at_once():
    with pytest.raises(ConfigError) as told:
        experiment(policy=LOUD, **online(algo="td3"), waive={"colect": "why"})
    assert [line.split(":")[0].split()[-1] for line in str(told.value).splitlines()] == [
        "stages.online",
        "stages.distill",
        "waive",
    ]


def test_a_stage_that_would_fail_is_told_with_its_place():
    with pytest.raises(ConfigError, match=r"demo\.yaml:\d+ stages\.online: ratio 'cfm' trains"):
        validate(compose("demo", ["stages.online.algo.ratio=cfm"]), Experiment)


def test_what_a_stage_may_leave_behind_is_not_known_of_one_that_does_not_say(monkeypatch):
    monkeypatch.setattr(InitPolicy, "makes", None)
    stages = dict.fromkeys(["scratch", "export"])
    assert list(experiment(stages=stages, waive={}).stages) == ["scratch", "export"]


def test_nobody_is_asked_of_a_policy_that_is_not_known_yet():
    student = {"name": "online", "exploration": {"sampler": "flow_noise"}}
    quiet = {"policy": {**LOUD, "eval_eta": 0.0}, "waive": {}}
    with pytest.raises(ConfigError, match=r"stages\.more: .*network says noise"):
        experiment(stages={"collect": {}, "bc": {}, "more": student}, **quiet)
    road = {"collect": {}, "bc": {}, "distill": {}, "more": student}  # of the student, a flow
    assert list(experiment(stages=road, **quiet).stages) == list(road)


def test_a_stage_is_asked_of_the_policy_that_reaches_it():
    rest = {label: STAGES[label] for label in ("collect", "bc", "online")}
    first = {"scratch": {"policy": LOUD}, "more": {**STAGES["online"], "name": "online"}}
    loud = {**first, "distill": STAGES["distill"]}
    with pytest.raises(ConfigError, match="distillation needs"):
        experiment(stages=loud, waive={})
    cloned = {**first, **rest, "distill": STAGES["distill"]}
    assert list(experiment(stages=cloned, waive={}).stages)[-1] == "distill"


EXPLORING = {**STAGES["online"], "name": "online", "exploration": {"sampler": "flow_noise"}}
PLAIN = {**STAGES["online"], "name": "online"}


def test_a_stage_is_asked_of_the_sampler_that_another_left():
    silent = {**POLICY, "sampler": "flow_ode"}
    road = {"scratch": {}, "loud": EXPLORING, "more": PLAIN}
    assert list(experiment(policy=silent, stages=road, waive={}).stages) == list(road)
    quiet = {**EXPLORING, "exploration": {"sampler": "flow_ode"}, "algo": "td3"}
    with pytest.raises(ConfigError, match=r"stages\.more: no denoising step is both"):
        experiment(stages={"scratch": {}, "quiet": quiet, "more": PLAIN}, waive={})


@pytest.mark.parametrize("error", [SpecError("wants pictures"), KeyError("rgb"), ImportError()])
def test_what_cannot_be_stood_in_for_is_not_refused(monkeypatch, error: Exception):
    def wants_more(*_: object) -> None:
        raise error

    monkeypatch.setattr(FlowPolicy, "check_obs", wants_more)
    assert experiment(**online(algo={"ratio": "cfm"})).stages


def test_a_sampler_whose_library_is_missing_is_not_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "diffusers", None)
    assert experiment(policy={**LOUD, "eval_eta": 0.0}).stages


def test_asking_draws_nothing_from_the_global_stream():
    before = torch.random.get_rng_state()
    experiment()
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("name", ["../x", "a/b", "", "..", "/tmp/x"])
def test_a_run_cannot_be_named_out_of_its_folder(name):
    with pytest.raises(ConfigError, match="name"):
        validate(compose("demo", [f"name='{name}'"]), Experiment)
