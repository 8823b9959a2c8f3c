"""A bandit with two good actions: the student must keep both, and never settle between them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from robo_rl.algo.encoded_obs import EncodedObs
from robo_rl.algo.same_noise_distillation import same_noise_loss
from robo_rl.algo.supervised import SupervisedTrainer
from robo_rl.config.component import component
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.data.normalize import Normalizer
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.one_step import make_one_step_student

OBS = ObsSpec(items={"pos": TensorSpec(shape=(2,))})
ACT = ActSpec(shape=(1,), rate_hz=20.0, low=(-1.0,), high=(1.0,))
BATCH = 256
NET = {"name": "mlp", "width": 64, "depth": 1}


def observe(rows: int, generator: torch.Generator) -> EncodedObs:
    return EncodedObs({"pos": torch.randn(rows, 1, 2, generator=generator)})


@pytest.fixture(scope="module")
def teacher() -> DenoisingPolicy:
    """A flow over acts that are −1 or +1, whatever is observed."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    sizes = {"name": "flow", "num_steps": 16, "horizon": 1, "exec_horizon": 1, "net": NET}
    policy = component("policies").make(sizes).build(OBS, ACT, Normalizer.identity(OBS, ACT))
    trainer = SupervisedTrainer(SupervisedTrainer.Config(lr=3e-3, ema_decay=0.99), policy, 1000)
    for _ in range(trainer.steps):
        obs = observe(BATCH, generator)
        act = 2.0 * torch.randint(2, (BATCH, 1, 1), generator=generator) - 1.0
        trainer.step(policy.loss(obs.items, act, generator))
    return trainer.ema.module


def independent_noise_loss(student, teacher, obs, generator) -> Tensor:
    """The control: what the student is asked for has nothing to do with its noise."""
    with torch.no_grad():
        target = teacher.act(obs.items, generator)
    return (student.act(obs.items, generator) - target).square().mean(dim=(1, 2))


def distil(teacher: DenoisingPolicy, loss, steps: int = 500) -> DenoisingPolicy:
    generator = torch.Generator().manual_seed(1)
    trainer = SupervisedTrainer(
        SupervisedTrainer.Config(lr=3e-3, ema_decay=0.99), make_one_step_student(teacher), steps
    )
    for _ in range(steps):
        trainer.step(loss(trainer.policy, teacher, observe(BATCH, generator), generator))
    return trainer.ema.module


@pytest.fixture(scope="module")
def student(teacher: DenoisingPolicy) -> DenoisingPolicy:
    return distil(teacher, same_noise_loss)


def shares(policy: DenoisingPolicy, rows: int = 4000) -> tuple[float, float, float]:
    """Shares of actions near −1, near +1, and in the middle."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        act = policy.act(observe(rows, generator).items, generator).flatten()
    near = [((act - mode).abs() < 0.3).float().mean() for mode in (-1.0, 1.0)]
    return float(near[0]), float(near[1]), float((act.abs() < 0.5).float().mean())


def keeps_both_modes(policy: DenoisingPolicy) -> bool:
    low, high, middle = shares(policy)
    return 0.35 < low < 0.65 and 0.35 < high < 0.65 and middle < 0.1


def test_the_teacher_has_two_modes(teacher):
    assert keeps_both_modes(teacher), shares(teacher)


def test_regression_on_the_same_noise_keeps_both_modes(student):
    assert student.num_steps == 1
    assert keeps_both_modes(student), shares(student)


@pytest.mark.slow
def test_regression_on_other_noise_averages_them(teacher):
    control = distil(teacher, independent_noise_loss, steps=300)
    assert not keeps_both_modes(control)
    assert shares(control)[2] > 0.8


def test_the_student_follows_the_teacher_noise_by_noise(teacher, student):
    generator = torch.Generator().manual_seed(3)
    obs, noise = observe(1000, generator).items, torch.randn(1000, 1, 1, generator=generator)
    with torch.no_grad():
        same = student.decode(obs, noise).sign() == teacher.decode(obs, noise).sign()
    assert same.float().mean() > 0.95


def test_the_loss_trains_the_student_alone(teacher, generator):
    student = make_one_step_student(teacher)
    for policy in (teacher, student):
        policy.requires_grad_(True)
        policy.zero_grad()
    loss = same_noise_loss(student, teacher, observe(8, generator), generator)
    assert loss.shape == (8,)
    loss.sum().backward()
    assert all(p.grad is None for p in teacher.parameters())
    assert any(p.grad is not None for p in student.parameters())
