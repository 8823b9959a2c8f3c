"""Flow samplers on data whose flow is known in closed form.

For actions ~ N(0, s²) the velocity at (x, t) is x·(t·s² − (1−t))/(t²s² + (1−t)²), so that the
samplers can be tested without a network.
"""

from __future__ import annotations

import pytest
import torch
from small_policies import make_obs, make_policy
from torch import Tensor

from robo_rl.config.component import component
from robo_rl.config.models import NestedError
from robo_rl.policy.chain import Prediction, Sampler, draw_chain
from robo_rl.policy.families.flow import FlowCps, FlowNoise, FlowOde, FlowSde

STD = 0.4


def velocity(x: Tensor, t: float, std: float) -> Tensor:
    return x * (t * std**2 - (1 - t)) / (t**2 * std**2 + (1 - t) ** 2)


def final_std(
    sampler: Sampler, rows: int = 40_000, std: float = STD, others: Sampler | None = None
) -> float:
    generator = torch.Generator().manual_seed(0)
    start = sampler.start((rows, 1, 1), generator).double()
    times = sampler.times.tolist()

    def predict(k: int, x: Tensor) -> Prediction:
        return Prediction(velocity(x, times[k], std))

    return float(draw_chain(sampler, predict, start, generator, others=others).act.std())


def test_ode_carries_noise_to_the_data():
    assert abs(final_std(FlowOde(FlowOde.Config(), 400)) - STD) < 0.01


def test_sde_keeps_the_marginals_of_the_flow():
    sampler = FlowSde(FlowSde.Config(noise_level=0.5), 400)
    # std error of a std over 40,000 draws is 0.4 %; discretisation adds about 1e-3
    assert abs(final_std(sampler) - STD) < 0.01


@pytest.mark.parametrize(
    ("num_steps", "ode", "sde", "one"), [(5, 0.157, 0.201, 0.169), (50, 0.239, 0.245, None)]
)
def test_few_steps_narrow_the_actions_as_measured(num_steps, ode, sde, one):
    """Actions of std 0.25: what few Euler steps make of them, measured on another prototype.

    (Which took another σ at t = 0, where it is infinite: that of one random step differs by 1 %.)
    """
    quiet = FlowOde(FlowOde.Config(), num_steps)
    noisy = FlowSde(FlowSde.Config(noise_level=0.5), num_steps)
    assert final_std(quiet, std=0.25) == pytest.approx(ode, abs=0.003)
    assert final_std(noisy, std=0.25) == pytest.approx(sde, abs=0.003)
    if one is not None:
        assert final_std(noisy, std=0.25, others=quiet) == pytest.approx(one, abs=0.004)


@pytest.mark.parametrize("bounds", [{"std_max": 0.02}, {"std_min": 0.02}, {"std_max": 0.005}])
def test_a_bounded_sde_keeps_the_marginals_too(bounds):
    # unbounded steps have a std between 0.5 and 0.0025 here
    sampler = FlowSde(FlowSde.Config(noise_level=0.5, **bounds), 200)
    assert abs(final_std(sampler) - STD) < 0.01


def test_cps_keeps_the_marginals_of_the_flow():
    # At few steps CPS, like the ODE, shrinks; at many the noise that is renewed accumulates to the
    # flow's own law only for small levels.
    assert abs(final_std(FlowCps(FlowCps.Config(noise_level=0.05), 200)) - STD) < 0.02


def test_cps_step_replaces_noise_by_as_much_noise(generator):
    """On pure noise (no action in it) the next noise level is exactly 1 − t'."""
    sampler = FlowCps(FlowCps.Config(noise_level=0.7), 5)
    x = torch.randn(200_000, 1, 1, generator=generator, dtype=torch.float64)
    k = torch.zeros(len(x), dtype=torch.int64)
    kernel = sampler.kernel(k, x, Prediction(-x))  # velocity = act − noise with act = 0
    assert abs(float(kernel.sample(generator).std()) - 0.8) < 0.005


def test_sde_without_noise_would_be_the_ode():
    sde, ode = FlowSde(FlowSde.Config(noise_level=1e-9), 7), FlowOde(FlowOde.Config(), 7)
    x, k = torch.randn(7, 2, 3, dtype=torch.float64), torch.arange(7)
    vel = torch.randn_like(x)
    gap = sde.kernel(k, x, Prediction(vel)).mean - ode.kernel(k, x, Prediction(vel)).mean
    assert float(gap.abs().max()) < 1e-12


def test_sde_step_std_is_the_published_formula():
    # K = 4, a = 0.5: σ·√dt with t floored at 1/4 is 0.5·√3·0.5 at k = 0, 1; then √1 and √(1/3)
    sampler = FlowSde(FlowSde.Config(noise_level=0.5), 4)
    x, k = torch.zeros(4, 1, 1, dtype=torch.float64), torch.arange(4)
    std = sampler.kernel(k, x, Prediction(x)).std.flatten()
    want = 0.25 * torch.tensor([3.0, 3.0, 1.0, 1.0 / 3.0], dtype=torch.float64).sqrt()
    torch.testing.assert_close(std, want)


def test_learnt_noise_stays_between_its_bounds():
    sampler = FlowNoise(FlowNoise.Config(std_min=0.05, std_max=0.2), 4)
    x, k = torch.zeros(3, 1, 1), torch.zeros(3, dtype=torch.int64)
    raw = torch.tensor([-50.0, 0.0, 50.0]).view(3, 1, 1)
    std = sampler.kernel(k, x, Prediction(x, raw)).std.flatten()
    torch.testing.assert_close(std, torch.tensor([0.05, 0.1, 0.2]))  # geometric middle


def test_evaluation_runs_the_ode_whatever_explores():
    obs, noise = make_obs(8), torch.randn(8, 3, 2, dtype=torch.float64)
    acts = [
        make_policy(sampler, 5).decode(obs, noise)
        for sampler in ("flow_sde", "flow_cps", "flow_noise")
    ]
    torch.testing.assert_close(acts[0], acts[1])
    torch.testing.assert_close(acts[0], acts[2])


def test_finetune_steps_leave_the_early_steps_as_they_were(generator):
    policy, obs = make_policy("flow_noise", 4, finetune_steps=2), make_obs(4)
    policy.freeze_reference()
    before = policy.sample(obs, generator.manual_seed(1)).x
    with torch.no_grad():
        for parameter in policy.net.parameters():
            parameter.add_(0.1)
    after = policy.sample(obs, generator.manual_seed(1)).x
    assert torch.equal(before[:, :3], after[:, :3])
    assert not torch.equal(before[:, 3:], after[:, 3:])
    assert policy.trainable_steps.tolist() == [False, False, True, True]


def test_a_sampler_of_another_family_is_refused():
    with pytest.raises(NestedError, match="expects noise"):
        component("policies").make({"name": "flow", "sampler": {"name": "ddim"}})


@pytest.mark.parametrize("num_steps", [1, 4, 20, 50])
def test_the_ode_of_a_network_that_always_predicts_one_action_ends_there(num_steps):
    policy, obs = make_policy("flow_noise", num_steps), make_obs(4)
    with torch.no_grad():
        for parameter in policy.net.parameters():
            parameter.zero_()
    act = policy.decode(obs, torch.randn(4, 3, 2, dtype=torch.float64))
    torch.testing.assert_close(act, torch.zeros_like(act), rtol=0, atol=1e-12)


@pytest.mark.parametrize("predicts", ["act", "vel"])
def test_a_bounded_prediction_keeps_a_chain_that_left_the_data_near_it(predicts):
    free, bound = (
        make_policy("flow_noise", 4, prediction_type=predicts, clip=limit) for limit in (0.0, 1.5)
    )
    for policy in (free, bound):
        with torch.no_grad():
            policy.net.out.weight.mul_(40.0)
    obs, noise = make_obs(64), torch.randn(64, 3, 2, dtype=torch.float64)
    assert free.decode_normalized(obs, noise).abs().max() > 3.0
    assert bound.decode_normalized(obs, noise).abs().max() <= 1.5 + 1e-9


@pytest.mark.parametrize("predicts", ["act", "vel"])
def test_a_bound_leaves_predictions_within_it_and_the_cloning_loss(predicts, generator):
    free, bound, tight = (
        make_policy("flow_noise", 4, prediction_type=predicts, clip=limit)
        for limit in (0.0, 50.0, 0.01)
    )
    obs, noise = make_obs(8), torch.randn(8, 3, 2, dtype=torch.float64)
    torch.testing.assert_close(bound.decode(obs, noise), free.decode(obs, noise))
    losses = [each.loss(obs, noise, generator.manual_seed(0)) for each in (free, tight)]
    assert torch.equal(*losses)


@pytest.mark.parametrize("grad_steps", [None, 4, 2, 0])
def test_gradients_flow_through_the_last_steps_of_a_chain_alone(grad_steps, generator):
    """With velocity v_k at step k the action is x[0] + Σ v_k/K + noise: ∂act/∂v_k = 1/K."""
    vel = torch.zeros(4, requires_grad=True)
    sampler = FlowNoise(FlowNoise.Config(), 4)

    def predict(k: int, x: Tensor) -> Prediction:
        return Prediction(vel[k].expand_as(x))

    start = torch.randn(1, 1, 1, generator=generator)
    act = draw_chain(sampler, predict, start, generator, grad_steps=grad_steps).act
    reached = 4 if grad_steps is None else grad_steps
    assert act.requires_grad is (reached > 0)
    if reached:
        (gradient,) = torch.autograd.grad(act.sum(), vel)
        assert gradient.tolist() == [0.0] * (4 - reached) + [0.25] * reached


def test_a_value_is_climbed_through_a_reparameterised_chain():
    """−(a − 0.5)² of the drawn chunk rises by gradient through the last two steps."""
    policy, obs = make_policy("flow_noise", 4), make_obs(64)
    optim = torch.optim.Adam(policy.net.parameters(), lr=3e-3)
    generator, values = torch.Generator().manual_seed(0), []
    for _ in range(60):
        loss = (policy.sample(obs, generator, grad_steps=2).act - 0.5).square().mean()
        optim.zero_grad()
        loss.backward()
        optim.step()
        values.append(-float(loss.detach()))
    assert values[-1] > -0.05 > values[0]
