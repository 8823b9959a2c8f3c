"""The one-step student: the teacher's sizes and first guess, and nothing shared with it."""

from __future__ import annotations

import pytest
import torch
from small_policies import make_obs, make_policy

from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.one_step import make_one_step_student


def noise(rows: int) -> torch.Tensor:
    return torch.randn(rows, 3, 2, generator=torch.Generator().manual_seed(3))


def single(obs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value.float() for name, value in obs.items()}


@pytest.mark.parametrize("sampler", ["gaussian", "ddim", "flow_sde", "flow_noise", "categorical"])
@pytest.mark.parametrize("net", ["mlp", "unet1d"])
def test_has_the_teachers_sizes_and_one_step(sampler, net):
    steps = 3 if sampler == "categorical" else 5
    teacher = make_policy(sampler, steps, net=net, obs_horizon=2).float()
    student = make_one_step_student(teacher)
    assert student.num_steps == 1
    for name in ("obs_horizon", "horizon", "exec_horizon", "obs_spec", "act_spec"):
        assert getattr(student, name) == getattr(teacher, name)
    obs = {name: value.repeat_interleave(2, 1) for name, value in single(make_obs(4)).items()}
    act = student.decode(obs, noise(4))
    assert act.shape == (4, 3, 2)
    assert act.isfinite().all()


def test_bounds_its_action_as_its_teacher_does():
    teacher = make_policy("flow_noise", 5, clip=0.01).float()
    act = make_one_step_student(teacher).decode_normalized(single(make_obs(4)), noise(4))
    assert act.abs().max() <= 0.01 + 1e-6


@pytest.mark.parametrize("predicts", ["act", "vel"])
def test_starts_as_one_euler_step_of_the_teachers_flow(predicts):
    teacher = make_policy("flow_noise", 5, prediction_type=predicts).float()
    obs, x = single(make_obs(8)), noise(8)
    with torch.no_grad():
        out = teacher.net(x, torch.zeros(8), teacher.encode(obs))
        expected = x + out if predicts == "vel" else out  # x + (out − x)/(1 − 0)
        torch.testing.assert_close(
            make_one_step_student(teacher).decode_normalized(obs, x), expected
        )


def test_is_the_teacher_where_the_flow_is_straight():
    """A teacher whose velocity is the same at every time needs one step only."""
    teacher = make_policy("flow_noise", 5, prediction_type="vel").float()

    def constant(x: torch.Tensor, t: torch.Tensor, embedding: torch.Tensor) -> torch.Tensor:
        del t
        return embedding[:, :1, None].expand_as(x)

    student = make_one_step_student(teacher)
    obs, x = single(make_obs(8)), noise(8)
    for policy in (teacher, student):
        policy.net.forward = constant
    torch.testing.assert_close(student.decode(obs, x), teacher.decode(obs, x))


def test_shares_no_memory_with_the_teacher():
    teacher = make_policy("flow_noise", 5).float()
    student = make_one_step_student(teacher)
    ours = {p.data_ptr() for p in (*teacher.parameters(), *teacher.buffers()) if p.numel()}
    theirs = {p.data_ptr() for p in (*student.parameters(), *student.buffers()) if p.numel()}
    assert not ours & theirs
    assert isinstance(student, DenoisingPolicy)
    assert all(p.requires_grad for p in student.parameters())
