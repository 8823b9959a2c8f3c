"""The KL of two chains at the student's own states, and what makes two chains comparable."""

from __future__ import annotations

import copy

import pytest
import torch
from small_policies import make_obs, make_policy
from torch import Tensor

from robo_rl.algo.on_policy_distillation import chain_kl, make_teacher
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
    return chain_kl(student, teacher, make_obs(rows), floor, generator)


@pytest.mark.parametrize("family", ["flow_sde", "flow_cps", "ddpm"])
def test_a_policy_has_no_kl_to_itself(family: str):
    policy = make_policy(family, STEPS)
    assert kl(policy, make_teacher(copy.deepcopy(policy), policy)).abs().max() < 1e-12


@torch.no_grad()
def test_its_mean_is_the_kl_of_the_chains_per_element():
    """The sum over the steps of the kernels' own KL, at chains of the same law."""
    student = make_policy("flow_sde", STEPS)
    student.noise_head = None
    teacher = make_teacher(shifted(student), student)
    obs = make_obs(ROWS, seed=1)
    x = student.sample(obs, torch.Generator().manual_seed(5)).x
    total = torch.zeros(ROWS, dtype=torch.float64)
    for step in range(STEPS):
        k = torch.full((ROWS,), step)
        ours = student.kernel(student.encode(obs), k, x[:, step])
        theirs = teacher.kernel(teacher.encode(obs), k, x[:, step])
        assert ours.std.min() > TINY
        total += ours.kl(theirs).mean(dim=(1, 2))
    found = kl(student, teacher)
    error = (found.var() / ROWS + total.var() / ROWS).sqrt()
    assert abs(found.mean() - total.mean()) < 4 * error
    assert error < 0.1 * total.mean()


def test_a_floor_bounds_the_weight_of_steps_with_little_noise():
    student = make_policy("flow_noise", STEPS)
    teacher = make_teacher(shifted(student), student)
    loose, tight = kl(student, teacher, 1e6), kl(student, teacher, 2e6)
    assert torch.allclose(loose, 4 * tight)


def test_gradients_draw_the_student_to_the_teacher_and_leave_the_teacher_alone():
    student = make_policy("flow_noise", STEPS)
    teacher = make_teacher(shifted(student, 0.1), student)
    before = {name: value.clone() for name, value in teacher.state_dict().items()}
    optimizer = torch.optim.Adam(student.net.parameters(), lr=3e-3)
    first = kl(student, teacher, 0.1, 500).mean().item()
    for _ in range(100):
        optimizer.zero_grad()
        kl(student, teacher, 0.1, 500).mean().backward()
        optimizer.step()
    assert kl(student, teacher, 0.1, 500).mean() < 0.1 * first
    assert all(torch.equal(before[name], value) for name, value in teacher.state_dict().items())


def test_the_student_s_noise_is_that_of_both():
    student = make_policy("flow_noise", STEPS)
    other = make_policy("flow_noise", STEPS, sampler={"name": "flow_noise", "std_max": 0.9})
    assert make_teacher(other, student).sampler is student.sampler


@pytest.mark.parametrize(
    ("fields", "problem"),
    [({"horizon": 4}, "horizon"), ({"obs_horizon": 2}, "obs_horizon")],
)
def test_chains_of_another_size_are_refused(fields: dict[str, int], problem: str):
    student = make_policy("flow_sde", STEPS)
    with pytest.raises(SpecError, match=f"another {problem}"):
        make_teacher(make_policy("flow_sde", STEPS, **fields), student)


def test_chains_of_another_length_family_or_range_are_refused():
    student = make_policy("flow_sde", STEPS)
    with pytest.raises(SpecError, match="another num_steps"):
        make_teacher(make_policy("flow_sde", STEPS + 1), student)
    with pytest.raises(SpecError, match="another policy family"):
        make_teacher(make_policy("ddpm", STEPS), student)
    stretched = copy.deepcopy(student)
    act = stretched.normalizer.affine("act")
    assert isinstance(act, Affine)
    act.scale.mul_(2.0)
    with pytest.raises(SpecError, match=r"another range of actions.*one dataset"):
        make_teacher(stretched, student)
