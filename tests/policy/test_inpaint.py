"""A chunk that goes on from a plan: what is kept, what is free, and that the rest fits."""

from __future__ import annotations

import pytest
import torch
from small_policies import make_obs, make_policy
from torch import Tensor

from robo_rl.core.errors import SpecError
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.chain import Prediction
from robo_rl.policy.families.diffusion import Ddim
from robo_rl.policy.families.flow import FlowOde
from robo_rl.policy.families.gaussian import Gaussian
from robo_rl.policy.inpaint import InpaintTarget, _guidance

FAMILIES = ["flow", "diffusion", "gaussian"]
SAMPLERS = {
    "flow": FlowOde(FlowOde.Config(), 5),
    "diffusion": Ddim(Ddim.Config(eta=0.0), 5),
    "gaussian": Gaussian(Gaussian.Config()),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_aimed_at_is_what_is_expected(name, generator):
    """At every step, whatever x is, ``act_of`` undoes ``aim``."""
    sampler = SAMPLERS[name]
    for step in range(len(sampler.times)):
        x = torch.randn(7, 4, 2, generator=generator, dtype=torch.float64)
        act = torch.rand(7, 4, 2, generator=generator, dtype=torch.float64) * 2 - 1
        k = torch.full((7,), step)
        out = sampler.prediction_for(k, x, act)
        torch.testing.assert_close(sampler.predicted_action(k, x, Prediction(out)), act)


def shapes(policy: DenoisingPolicy) -> tuple[int, int, int]:
    return 6, policy.horizon, policy.act_spec.size


@pytest.mark.parametrize("name", ["flow_noise", "ddpm", "ddim", "gaussian"])
def test_without_weight_nothing_changes_and_with_all_of_it_the_plan_is_done(name, generator):
    policy, obs = make_policy(name, num_steps=4), make_obs(6)
    noise = torch.randn(shapes(policy), generator=generator).double()
    planned = policy.to_env(obs, torch.rand(shapes(policy), generator=generator).double() - 0.5)
    none, full = torch.zeros(shapes(policy)[:2]), torch.ones(shapes(policy)[:2])
    free = policy.decode(obs, noise)
    torch.testing.assert_close(
        policy.inpaint(obs, noise, planned, none), free, atol=1e-4, rtol=1e-4
    )
    kept = policy.inpaint(obs, noise, planned, full)
    torch.testing.assert_close(kept, planned, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["flow_noise", "ddim"])
@pytest.mark.parametrize("num_steps", [1, 4])
def test_what_has_weight_1_is_kept_whatever_else_is_planned(name, num_steps, generator):
    policy, obs = make_policy(name, num_steps), make_obs(6)
    noise = torch.randn(shapes(policy), generator=generator).double()
    planned = policy.to_env(obs, torch.rand(shapes(policy), generator=generator).double() - 0.5)
    weight = torch.tensor([1.0, 0.4, 0.0]).expand(6, -1)
    found = policy.inpaint(obs, noise, planned, weight)
    torch.testing.assert_close(found[:, 0], planned[:, 0], atol=1e-5, rtol=1e-5)
    assert (found[:, 2] - planned[:, 2]).abs().min() > 1e-4


def bimodal(x: Tensor, t: float) -> Tensor:
    """Velocity of the flow to chunks that are +1 or −1 throughout, each half of the time.

    Given x at t the chunk is ±1 with the posterior odds of a Gaussian mixture, so that it expects
    tanh(t·Σx/(1−t)²) of every action.
    """
    expected = torch.tanh(t * x.sum(dim=1, keepdim=True) / (1.0 - t) ** 2)
    return (expected.expand_as(x) - x) / (1.0 - t)


HALF = [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
SOFT = [1.0, 1.0, 0.57, 0.29, 0.11, 0.02, 0.0, 0.0]
"""As real-time chunking's mask with six ticks left, of which two will have passed."""


@pytest.mark.parametrize("weights", [HALF, SOFT], ids=["half", "soft"])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_the_rest_of_the_chunk_follows_the_plan_where_there_are_two_ways(side, weights, generator):
    """Half of a chunk that may go left or right is planned: the other half goes the same way.

    Mixing two finished chunks would leave half of the rows in between.
    """
    sampler, rows, horizon = FlowOde(FlowOde.Config(), 10), 2000, len(weights)
    weight = torch.tensor(weights, dtype=torch.float64).expand(rows, -1)
    plan = InpaintTarget(torch.full((rows, horizon, 1), side, dtype=torch.float64), weight)
    x = torch.randn(rows, horizon, 1, generator=generator, dtype=torch.float64)
    for step, t in enumerate(sampler.times.tolist()):
        k = torch.full((rows,), step)
        prediction = plan.guide(sampler, k, x, lambda x, t=t: Prediction(bimodal(x, t)))
        x = sampler.kernel(k, x, prediction).mean
    kept = weight[0] == 1.0
    torch.testing.assert_close(x[:, kept], plan.act[:, kept])
    follows = (x[:, ~kept].mean(dim=(1, 2)) * side > 0.5).double().mean()
    assert follows > 0.95


def test_a_sampler_that_cannot_is_said_to_be_one():
    class Other:
        pass

    plan = InpaintTarget(torch.zeros(1, 2, 1), torch.zeros(1, 2))
    with pytest.raises(SpecError, match="Other cannot keep a plan"):
        plan.guide(Other(), torch.zeros(1), torch.zeros(1, 2, 1), Prediction)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("t", "num_steps", "step"),
    [
        (0.0, 5, 5.0),  # β·(1−t)
        (0.2, 5, 3.4),  # (t² + (1−t)²)/t, below β·(1−t) = 4
        (0.8, 5, 0.85),
        (0.0, 1, 1.0),  # β = K
    ],
)
def test_the_guidance_is_that_of_real_time_chunking(t, num_steps, step):
    """(1−t)·min(β, (1−t)/(t·r²)) with r² = (1−t)²/(t² + (1−t)²): arXiv 2506.07339, eq. 2 and 4."""
    a, s = torch.tensor(t, dtype=torch.float64), torch.tensor(1.0 - t, dtype=torch.float64)
    assert float(_guidance(a, s, num_steps)) == pytest.approx(step)
