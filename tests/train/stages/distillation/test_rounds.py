"""A frozen encoder: it runs once a state and round, and the student's results follow from it."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from small_images import make_seeing_policy, make_seen

from robo_rl.algo.encoded_obs import EncodedObs, demand_shared_encoder
from robo_rl.algo.same_noise_distillation import same_noise_loss
from robo_rl.config.compose import compose
from robo_rl.config.models import validate
from robo_rl.core.errors import ConfigError
from robo_rl.policy.one_step import make_one_step_student
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.stages.distillation.one_step import Distill
from robo_rl.train.stages.distillation.rounds import DistillationRounds


def trained(*, kept: bool, by_hand: bool = False) -> tuple[Any, Any, list[int]]:
    """Teacher, student after a round on states that are at hand, and rows of the encoder's runs."""
    teacher = make_seeing_policy(exec_horizon=3)
    torch.manual_seed(0)
    student = make_one_step_student(teacher)
    ran: list[int] = []
    student.net.encoder.register_forward_hook(lambda *args: ran.append(len(args[2])))
    rounds = DistillationRounds(
        Distill.Config(rounds=1, steps=6, batch=16),
        SimpleNamespace(seed=0),  # pyright: ignore[reportArgumentType]
        student,
        lambda student, obs, draw: same_noise_loss(student, teacher, obs, draw),
        stream="distill",
        freeze_encoder=kept,
    )
    if by_hand:
        student.net.encoder.requires_grad_(False)
    rounds._visit = lambda: setattr(rounds, "visited", make_seen(40, seed=1))  # type: ignore[method-assign]
    for _ in range(6):
        rounds.step()
    return teacher, student, ran


def test_a_round_is_that_of_an_encoder_that_runs_again_and_takes_no_gradient():
    teacher, kept, once = trained(kept=True)
    _, again, often = trained(kept=False, by_hand=True)
    assert once == [40]
    assert often == [16] * 6
    before = make_one_step_student(teacher)
    for (name, one), other, first in zip(
        kept.named_parameters(), again.parameters(), before.parameters(), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
        if name.startswith("net."):
            assert torch.equal(one, first) == (".encoder." in name), name


@torch.no_grad()
def test_chunks_of_an_encoded_observation_are_those_of_the_observation():
    policy = make_seeing_policy(exec_horizon=3, finetune_steps=1)
    policy.freeze_reference()
    with torch.no_grad():
        names = dict(policy.net.named_parameters())
        names[next(name for name in names if "encoder" not in name)].add_(0.1)
    obs = EncodedObs(make_seen(5, seed=2))
    noise = torch.randn(5, policy.horizon, policy.act_spec.size)
    found, wanted = obs.through(policy).decode(policy, noise), obs.decode(policy, noise)
    torch.testing.assert_close(found, wanted)


def test_an_encoder_of_its_own_is_refused():
    teacher = make_seeing_policy(exec_horizon=3)
    student = make_one_step_student(teacher)
    demand_shared_encoder(teacher.net, student.net, "other", "one")
    with torch.no_grad():
        next(student.net.encoder.parameters()).add_(1.0)
    with pytest.raises(ConfigError, match="freeze_encoder"):
        demand_shared_encoder(teacher.net, student.net, "other", "one")


def test_weights_that_are_frozen_stay_so_where_the_encoder_is_trained():
    teacher = make_seeing_policy(exec_horizon=3)
    student = make_one_step_student(teacher)
    first = next(student.net.encoder.parameters()).requires_grad_(False)
    DistillationRounds(
        Distill.Config(rounds=1),
        SimpleNamespace(seed=0),  # pyright: ignore[reportArgumentType]
        student,
        lambda student, obs, draw: same_noise_loss(student, teacher, obs, draw),
        stream="distill",
    )
    assert not first.requires_grad
    assert sum(p.requires_grad for p in student.net.encoder.parameters()) > 0


@pytest.mark.parametrize(
    ("online", "said"),
    [
        (["algo.freeze_encoder=false"], "another encoder than the first"),
        (["student.steps=2"], "the joint student"),
        ([], ""),
        (["algo.freeze_encoder=false", "exploration.finetune_steps=0"], ""),
    ],
)
def test_two_encoders_are_refused_with_the_experiment(online: list[str], said: str):
    changes = [f"stages.online.{each}" for each in online]
    tree = compose("coloured_table", changes)
    with pytest.raises(ConfigError, match=said) if said else nullcontext():
        validate(tree, Experiment)
