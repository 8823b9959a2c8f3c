"""A student that learns along: it changes nothing, resumes, follows the policy, and is taken up."""

from __future__ import annotations

import copy
import json
import math
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import EXPERIMENT, STAGES
from torch import nn

from robo_rl.algo.encoded_obs import EncodedObs
from robo_rl.algo.same_noise_distillation import same_noise_loss
from robo_rl.config.models import ConfigTree, validate
from robo_rl.core.errors import ConfigError
from robo_rl.data.normalize import Normalizer
from robo_rl.data.rollout import Rollout
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.one_step import make_one_step_student
from robo_rl.train.checkpoint.policies import load_policy, save_policy
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.run import run_experiment
from robo_rl.train.pipeline.stage import Context, Report
from robo_rl.train.rl.joint_distillation import JointDistillation
from robo_rl.train.rl.loop import Loop
from robo_rl.train.stages import video
from robo_rl.train.stages.distillation.one_step import Distill

UPDATES, STEPS = 4, 25
STUDENT = {"steps": STEPS, "batch": 64, "optim": {"lr": 3e-3, "warmup_steps": 0, "ema_decay": 0.9}}
ONLINE = {**STAGES["online"], "updates": UPDATES, "checkpoint_every": 2, "student": STUDENT}
AVERAGED = {**ONLINE["algo"], "ema_decay": 0.8}


def experiment(stages: dict[str, Any], **changes: Any) -> Experiment:
    return validate({**EXPERIMENT, "stages": stages, "waive": {}, **changes}, Experiment)


def build(made: Experiment) -> DenoisingPolicy:
    with closing(made.make_env(1)) as env:
        specs = env.obs_spec, env.act_spec
    torch.manual_seed(0)
    return made.policy.build(*specs, Normalizer.identity(*specs))


def make_loop(directory: Path, **online: Any) -> Loop:
    made = experiment({"scratch": {}, "online": {**ONLINE, **online}})
    return Loop(made.stages["online"].cfg, Context(made, directory, []), build(made))


def begin(directory: Path, **online: Any) -> tuple[Loop, JointDistillation]:
    loop = make_loop(directory, **online)
    assert loop.joint_distillation is not None
    return loop, loop.joint_distillation


def train(directory: Path, **online: Any) -> JointDistillation:
    loop, apprentice = begin(directory, **online)
    loop.train()
    return apprentice


def rows(directory: Path) -> list[dict[str, float]]:
    """What was measured, without how long it took."""
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.endswith("_s")} for line in lines]


def same(one: nn.Module, other: nn.Module) -> bool:
    theirs = other.state_dict()
    return all(torch.equal(value, theirs[name]) for name, value in one.state_dict().items())


@pytest.mark.parametrize(
    "changes",
    [{}, {"algo": AVERAGED}, {"running_obs_stats": True}],
    ids=["plain", "averaged", "tracked"],
)
def test_the_policy_is_the_same_with_and_without_it(tmp_path: Path, changes: dict[str, Any]):
    found = []
    for steps in (STEPS, 0):
        student = {**STUDENT, "steps": steps}
        loop = make_loop(tmp_path / str(steps), **changes, student=student)
        loop.train()
        found.append(loop)
    with_it, without = found
    assert without.joint_distillation is None
    assert same(with_it.eval_policy, without.eval_policy)
    assert torch.equal(with_it.algo.generator.get_state(), without.algo.generator.get_state())
    taught, plain = rows(tmp_path / str(STEPS)), rows(tmp_path / "0")
    assert len([row.pop("student_loss") for row in taught]) == UPDATES
    assert taught == plain


def test_what_is_resumed_is_what_would_have_followed(tmp_path: Path):
    whole = train(tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    shutil.rmtree(tmp_path / "cut" / "ckpt" / f"{UPDATES:06d}")
    cut = train(tmp_path / "cut")
    assert cut.trainer.done == UPDATES * STEPS
    assert same(cut.student, whole.student)
    assert same(cut.trainer.policy, whole.trainer.policy)
    assert torch.equal(cut.generator.get_state(), whole.generator.get_state())
    assert rows(tmp_path / "cut") == rows(tmp_path / "whole")


def test_it_is_near_to_the_policy_as_that_is_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Where the policy has been: nearer than a fresh student, and than to what that began as."""
    loop, apprentice = begin(
        tmp_path, algo={**ONLINE["algo"], "lr": 3e-3, "lr_max": 3e-3, "target_kl": 0}
    )
    first, blocks, follow = copy.deepcopy(loop.policy), list[Rollout](), apprentice.update

    def noted(policy: DenoisingPolicy, rollout: Rollout) -> dict[str, float]:
        blocks.append(rollout)
        return follow(policy, rollout)

    monkeypatch.setattr(apprentice, "update", noted)
    loop.train()
    obs = {name: blocks[-1].rows(seen) for name, seen in blocks[-1].obs.items()}

    def far(student: DenoisingPolicy, policy: DenoisingPolicy) -> float:
        with torch.no_grad():
            noise = torch.Generator().manual_seed(1)
            return float(same_noise_loss(student, policy, EncodedObs(obs), noise).mean())

    found = far(apprentice.student, loop.eval_policy)
    assert found < 0.5 * far(make_one_step_student(loop.eval_policy), loop.eval_policy)
    assert found < 0.5 * far(apprentice.student, first)


def test_its_inputs_stay_those_that_it_learnt_from(tmp_path: Path):
    """Training may end with an earlier policy, whose statistics of observations come back."""
    loop, apprentice = begin(tmp_path, running_obs_stats=True)
    loop.train()
    kept = apprentice.student.normalizer
    assert kept is apprentice.trainer.policy.normalizer
    assert kept is not loop.policy.normalizer
    before = {name: value.clone() for name, value in kept.state_dict().items()}
    for buffer in loop.policy.normalizer.buffers():
        if buffer.is_floating_point():
            buffer.add_(1.0)
    assert all(torch.equal(value, before[name]) for name, value in kept.state_dict().items())


def test_a_block_without_decisions_teaches_nothing(tmp_path: Path):
    loop, apprentice = begin(tmp_path)
    rollout, _ = loop.collector.collect(loop.policy, 1)
    rollout.valid.zero_()
    assert math.isnan(apprentice.update(loop.policy, rollout)["student_loss"])
    assert apprentice.trainer.done == 0


def test_of_several_parts_it_learns_from_the_first(tmp_path: Path):
    """What another part holds makes no difference."""
    loop, _ = begin(tmp_path, shards=2)
    rollout, _ = loop.collector.collect(loop.policy, 2)
    assert rollout.shard is not None
    heads = []
    for part in (None, 1, 0):
        block = copy.deepcopy(rollout)
        for seen in block.obs.values():
            seen[rollout.shard == part] += 0.1
        apprentice = JointDistillation(JointDistillation.Config(steps=2, batch=16), loop.policy, 0)
        apprentice.update(loop.policy, block)
        heads.append(apprentice.student)
    assert same(heads[1], heads[0])
    assert not same(heads[2], heads[0])


def test_a_policy_that_draws_noise_on_its_way_is_refused():
    policy = {**EXPERIMENT["policy"], "name": "diffusion", "num_steps": 5, "eval_eta": 1.0}
    stages = {"scratch": {}, "online": ONLINE}
    with pytest.raises(ConfigError, match=r"stages\.online: policy\.eval_eta.* a student beside"):
        experiment(stages, policy=policy)
    experiment({**stages, "online": {**ONLINE, "student": {}}}, policy=policy)


@pytest.fixture
def no_film(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video, "render_policy_video", lambda *_args, **_fields: None)


@pytest.mark.usefixtures("no_film")
def test_the_stage_leaves_the_head_that_the_next_one_begins_with(tmp_path: Path):
    online = {**ONLINE, "updates": 2}
    stages = {"scratch": {}, "online": online, "distill": STAGES["distill"]}
    waive = dict.fromkeys(["online", "distill"], "too short to pass")
    tree = ConfigTree({**EXPERIMENT, "stages": stages, "waive": waive}, {})
    _, trained, distilled = run_experiment(tree, [], tmp_path)["stages"]
    assert trained["artifacts"].keys() == {"policy", "teacher", "joint_student"}
    assert {"success_one_step", "return_one_step"} <= trained["numbers"].keys()
    assert load_policy(tmp_path / "tiny" / "01-online" / "joint_student").num_steps == 1
    assert distilled["numbers"]["began_with"] == "joint_student"


@pytest.mark.usefixtures("no_film")
@pytest.mark.parametrize(
    ("newest", "warm_start_student", "taken"),
    [("online", True, True), ("online", False, False), ("offline", True, False)],
)
def test_only_a_head_of_the_policy_that_is_distilled_is_taken_up(
    tmp_path: Path, newest: str, warm_start_student: bool, taken: bool
):
    """A head that is far from what a fresh student would be, and steps that hardly move it."""
    still = {
        "rounds": 1,
        "steps": 1,
        "warm_start_student": warm_start_student,
        "optim": {"lr": 1e-9, "ema_decay": 0.0},
    }
    made = experiment({"scratch": {}, "distill": {**STAGES["distill"], **still}})
    teacher = build(made)
    head = make_one_step_student(teacher)
    nn.init.constant_(next(head.net.parameters()), 0.25)
    save_policy(tmp_path / "policy", teacher)
    save_policy(tmp_path / "joint_student", head)
    online = Report("online", artifacts={"policy": "policy", "joint_student": "joint_student"})
    later = [] if newest == "online" else [Report(newest, artifacts={"policy": "policy"})]
    earlier = [(tmp_path, report) for report in (online, *later)]
    report = Distill(made.stages["distill"].cfg).run(Context(made, tmp_path / "last", earlier))
    found = load_policy(tmp_path / "last" / report.artifacts["policy"]).net.state_dict()
    wanted = (head if taken else make_one_step_student(teacher)).net.state_dict()
    assert all(torch.allclose(found[name], value, atol=1e-6) for name, value in wanted.items())
    assert ("began_with" in report.numbers) == taken
