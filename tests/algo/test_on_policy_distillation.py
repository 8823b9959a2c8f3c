"""The KL of two chains at the student's own states, and what makes two chains comparable."""

from __future__ import annotations

import copy

import pytest
import torch
from small_images import make_seeing_policy, make_seen
from small_policies import make_obs, make_policy
from torch import Tensor

from robo_rl.algo.encoded_obs import EncodedObs
from robo_rl.algo.on_policy_distillation import Teacher, chain_kl
from robo_rl.core.errors import SpecError
from robo_rl.data.affine import Affine

STEPS, ROWS, TINY = 4, 4000, 1e-6
"""Rows enough for a mean over steps; a floor below every standard deviation."""


def shifted(policy, by: float = 0.05):
    """A copy with other weights in its last layer."""
    other = copy.deepcopy(policy)
    with torch.no_grad():
        for weight in list(other.net.parameters())[-2:]:
            weight.add_(by)
    return other


def kl(student, teacher, floor: float = TINY, rows: int = ROWS) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return chain_kl(student, teacher, EncodedObs(make_obs(rows)), floor, generator)


def test_a_frozen_encoder_gives_the_same_kl_and_learns_nothing():
    student = make_seeing_policy()
    teacher, obs = Teacher(shifted(student), student), EncodedObs(make_seen(8))

    def found(obs: EncodedObs) -> tuple[Tensor, list[bool]]:
        student.zero_grad()
        loss = chain_kl(student, teacher, obs, TINY, torch.Generator().manual_seed(3))
        loss.sum().backward()
        return loss.detach(), [w.grad is not None for w in student.net.encoder.parameters()]

    trained, kept = found(obs), found(obs.through(student))
    torch.testing.assert_close(kept[0], trained[0])
    assert trained[1]
    assert all(trained[1])
    assert not any(kept[1])


@pytest.mark.parametrize("family", ["flow_sde", "flow_cps", "ddpm", "categorical"])
def test_a_policy_has_no_kl_to_itself(family: str):
    policy = make_policy(family, 3 if family == "categorical" else STEPS)
    assert kl(policy, Teacher(copy.deepcopy(policy), policy)).abs().max() < 1e-12


@torch.no_grad()
def test_the_kl_of_tokens_is_that_of_their_odds():
    """Of the only step: the sum of p·ln(p/q) over the bins, mean over the elements."""
    student, other = (make_policy("categorical", 1, bins=4) for _ in range(2))
    other.net.out.bias.add_(torch.linspace(-1.0, 1.0, 24))
    teacher, obs = Teacher(other, student), make_obs(4)
    x, k = torch.zeros(4, 3, 2, dtype=torch.float64), torch.zeros(4, dtype=torch.int64)
    ours, theirs = (each.kernel(each.encode(obs), k, x).logits for each in (student, other))
    log_p, log_q = ours.log_softmax(-1), theirs.log_softmax(-1)
    expected = (log_p.exp() * (log_p - log_q)).sum(-1).mean(-1)
    assert float(expected.min()) > 1e-3
    generator = torch.Generator().manual_seed(0)
    torch.testing.assert_close(
        chain_kl(student, teacher, EncodedObs(obs), 1e-3, generator), expected
    )


def test_a_teacher_of_other_bins_is_refused():
    with pytest.raises(SpecError, match="bins"):
        Teacher(make_policy("categorical", 3, bins=4), make_policy("categorical", 3, bins=8))


@pytest.mark.parametrize(
    "sampler", [{"name": "ddpm"}, {"name": "ddim", "train_steps": 20, "clip": 3.0}]
)
def test_a_teacher_of_another_noise_schedule_is_refused(sampler: dict[str, object]):
    with pytest.raises(SpecError, match="another noise schedule"):
        Teacher(make_policy("ddim", 5, sampler=sampler), make_policy("ddim", 5))


@torch.no_grad()
@pytest.mark.parametrize("family", ["flow_sde", "flow_noise"])
def test_its_mean_is_the_kl_of_the_chains_per_element(family: str):
    """The sum over the steps of the kernels' own KL, at chains of the same law."""
    student = make_policy(family, STEPS)
    other = shifted(student)
    if other.noise_head is not None:
        for weight in other.noise_head.parameters():
            weight.add_(0.1)
    teacher, obs = Teacher(other, student), make_obs(ROWS, seed=1)
    x = student.sample(obs, torch.Generator().manual_seed(5)).x
    total = torch.zeros(ROWS, dtype=torch.float64)
    for step in range(STEPS):
        k = torch.full((ROWS,), step)
        ours = student.kernel(student.encode(obs), k, x[:, step])
        theirs = other.kernel(other.encode(obs), k, x[:, step])
        assert ours.std.min() > TINY
        total += ours.kl(theirs).mean(dim=(1, 2))
    found = kl(student, teacher)
    error = (found.var() / ROWS + total.var() / ROWS).sqrt()
    assert abs(found.mean() - total.mean()) < 4 * error
    assert error < 0.1 * total.mean()


@torch.no_grad()
def test_a_teacher_whose_first_steps_were_kept_is_asked_as_it_acts():
    """Those steps are the reference's, and the others the network's that RL trained."""
    student = make_policy("flow_sde", STEPS)
    policy = make_policy("flow_sde", STEPS, finetune_steps=1)
    policy.freeze_reference()
    base = copy.deepcopy(policy.reference_net)
    for weight in list(policy.net.parameters())[-2:]:
        weight.add_(0.1)
    teacher, obs = Teacher(policy, student), make_obs(STEPS)
    x = torch.randn(STEPS, 3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    k = torch.arange(STEPS)
    found = teacher.kernel(obs, k, x)
    late = policy.kernel(policy.encode(obs), k, x)
    policy.net = base
    early = policy.kernel(policy.encode(obs), k, x)
    assert torch.allclose(found.mean[:-1], early.mean[:-1])
    assert torch.allclose(found.mean[-1], late.mean[-1])
    assert not torch.allclose(early.mean, late.mean)


def test_a_floor_bounds_the_weight_of_steps_with_little_noise():
    """Far above all standard deviations only the means count, by the floor's square."""
    student = make_policy("flow_sde", STEPS)
    teacher = Teacher(shifted(student), student)
    loose, tight = kl(student, teacher, 10.0), kl(student, teacher, 20.0)
    assert torch.allclose(loose, 4 * tight)


def test_gradients_draw_the_student_to_the_teacher_and_leave_the_teacher_alone():
    student = make_policy("flow_noise", STEPS)
    teacher = Teacher(shifted(student, 0.1), student)
    before = {name: value.clone() for name, value in teacher.policy.state_dict().items()}
    optimizer = torch.optim.Adam(student.net.parameters(), lr=3e-3)
    first = kl(student, teacher, 0.1, 500).mean().item()
    for _ in range(100):
        optimizer.zero_grad()
        kl(student, teacher, 0.1, 500).mean().backward()
        optimizer.step()
    assert kl(student, teacher, 0.1, 500).mean() < 0.1 * first
    after = teacher.policy.state_dict()
    assert all(torch.equal(before[name], value) for name, value in after.items())


def test_the_student_s_noise_is_that_of_both():
    student = make_policy("flow_noise", STEPS)
    other = make_policy("flow_noise", STEPS, sampler={"name": "flow_noise", "std_max": 0.9})
    assert Teacher(other, student).policy.sampler is student.sampler


@pytest.mark.parametrize(
    ("fields", "problem"),
    [({"horizon": 4}, "horizon"), ({"obs_horizon": 2}, "obs_horizon")],
)
def test_chains_of_another_size_are_refused(fields: dict[str, int], problem: str):
    student = make_policy("flow_sde", STEPS)
    with pytest.raises(SpecError, match=f"another {problem}"):
        Teacher(make_policy("flow_sde", STEPS, **fields), student)


def test_chains_of_another_length_family_or_range_are_refused():
    student = make_policy("flow_sde", STEPS)
    with pytest.raises(SpecError, match="another num_steps"):
        Teacher(make_policy("flow_sde", STEPS + 1), student)
    with pytest.raises(SpecError, match="another policy family"):
        Teacher(make_policy("ddpm", STEPS), student)
    stretched = copy.deepcopy(student)
    act = stretched.normalizer.affine("act")
    assert isinstance(act, Affine)
    act.scale.mul_(2.0)
    with pytest.raises(SpecError, match=r"another range of actions.*one dataset"):
        Teacher(stretched, student)
