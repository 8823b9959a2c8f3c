"""Behaviour cloning: a function is learnt by every family, on schedule, and resumed to the bit."""

from __future__ import annotations

import math

import pytest
import torch
from small_policies import make_obs, make_policy

from robo_rl.algo.supervised import SupervisedTrainer
from robo_rl.optim.precision import Precision, autocast

ROWS = 256


def demonstration(seed: int = 0) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Observations, and chunks (B, 3, 2) that are a function of them."""
    obs = {name: value.float() for name, value in make_obs(ROWS, seed).items()}
    heading = torch.tanh(obs["pos"][:, :, :2] + obs["goal"])
    return obs, 0.8 * heading * torch.tensor([1.0, 0.5, -0.5])[None, :, None]


def train(
    sampler: str,
    steps: int,
    generator: torch.Generator,
    precision: Precision = Precision.FP32,
    **fields: float,
) -> SupervisedTrainer:
    policy = make_policy(sampler, 5).float()
    trainer = SupervisedTrainer(
        SupervisedTrainer.Config(lr=3e-3, warmup_steps=20, **fields), policy, steps
    )
    obs, act = demonstration()
    for _ in range(steps):
        with autocast(precision, policy):
            loss = policy.loss(obs, act, generator)
        trainer.step(loss)
    return trainer


@pytest.mark.parametrize(
    ("sampler", "precision"),
    [
        ("gaussian", Precision.FP32),
        pytest.param("ddim", Precision.FP32, marks=pytest.mark.slow),
        ("flow_noise", Precision.FP32),
        pytest.param("flow_noise", Precision.BF16, marks=pytest.mark.slow),
    ],
)
def test_a_function_is_learnt_and_generalises(sampler, precision, generator):
    policy = train(sampler, 600, generator, precision, ema_decay=0.98).ema.module
    assert all(weights.dtype == torch.float32 for weights in policy.parameters())
    obs, act = demonstration(seed=1)
    with torch.no_grad():
        error = (policy.act(obs, generator) - act).square().mean()
    assert error < 0.15 * act.square().mean()


def test_the_rate_warms_up_and_falls_as_half_a_cosine():
    policy = make_policy("gaussian", 1).float()
    trainer = SupervisedTrainer(SupervisedTrainer.Config(lr=1.0, warmup_steps=4), policy, 12)
    obs, act = demonstration()
    rates = []
    for _ in range(14):
        trainer.step(policy.loss(obs, act, torch.Generator()))
        rates.append(trainer.optimizer.optim.param_groups[0]["lr"])
    falling = [0.01 + 0.495 * (1 + math.cos(math.pi * done / 8)) for done in range(8)]
    assert rates == pytest.approx([0.25, 0.5, 0.75, 1.0, *falling, 0.01, 0.01])


def test_a_gradient_is_clipped_as_a_whole():
    policy = make_policy("gaussian", 1).float()
    trainer = SupervisedTrainer(SupervisedTrainer.Config(grad_clip=0.1), policy, 10)
    obs, act = demonstration()
    trainer.step(1e6 * policy.loss(obs, act, torch.Generator()))
    total = torch.stack(
        [p.grad.norm() for p in trainer.optimizer.params if p.grad is not None]
    ).norm()
    assert float(total) == pytest.approx(0.1, rel=1e-3)


def test_it_continues_from_its_state_to_the_bit():
    obs, act = demonstration()
    results = []
    for interrupted in (False, True):
        generator = torch.Generator().manual_seed(0)
        policy = make_policy("flow_noise", 4).float()
        trainer = SupervisedTrainer(SupervisedTrainer.Config(warmup_steps=5), policy, 20)
        while trainer.done < 20:
            if interrupted and trainer.done == 9:
                interrupted, state = False, trainer.state_dict()
                other = make_policy("flow_noise", 4, net={"name": "mlp", "width": 32, "depth": 1})
                trainer = SupervisedTrainer(
                    SupervisedTrainer.Config(warmup_steps=5), other.float(), 20
                )
                trainer.load_state_dict(state)
            trainer.step(trainer.policy.loss(obs, act, generator))
        modules = (trainer.policy, trainer.ema.module)
        results.append([p.clone() for module in modules for p in module.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
