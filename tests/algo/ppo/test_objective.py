"""What the actor minimises: fresh ratios for every family and mode, and what the options add."""

from __future__ import annotations

import math

import pytest
import torch
from pydantic import ValidationError
from small_blocks import ROWS, acted
from small_policies import make_policy

from robo_rl.algo.ppo.batch.actor_batch import unit_kernel, unit_sums
from robo_rl.algo.ppo.likelihood_ratio import LogRatios, k3
from robo_rl.algo.ppo.objective import Objective, ObjectiveConfig, check_policy_supports
from robo_rl.algo.ppo.regularizers import RegularizationConfig
from robo_rl.algo.ppo.surrogate_loss import TrustRegionConfig, surrogate
from robo_rl.algo.ppo.trust_region import TrustRegion
from robo_rl.core.errors import ConfigError
from robo_rl.policy.kernels.gaussian import GaussianKernel

VEL = {"prediction_type": "vel"}
SAMPLERS = [
    ("gaussian", {}),
    ("ddpm", {}),
    ("ddim", {}),
    ("flow_sde", {}),
    ("flow_sde", {"sampler": {"name": "flow_sde", "chunk_correlation": 1.0}}),
    ("flow_cps", VEL),
    ("flow_noise", {}),
    ("flow_noise", {"sampler": {"name": "flow_noise", "chunk_correlation": 0.7}}),
    (
        "flow_noise",
        {"sampler": {"name": "flow_noise", "chunk_correlation": 1.0}, "finetune_steps": 2},
    ),
]
MODES = [
    {"ratio": "per_step"},
    {"ratio": "per_step", "ratio_norm": "guard", "clip_base": 0.01},
    {"ratio": "joint"},
    {"ratio": "joint", "ratio_norm": "guard", "trust_region": "spo"},
    {"ratio": "single_step", "trust_region": "dual_clip"},
    {"ratio": "single_step", "ratio_norm": "guard"},
    {"ratio": "per_step", "ratio_reduction": "mean"},
    {"ratio": "joint", "ratio_reduction": "mean"},
    {"ratio": "cfm"},
    {"ratio": "cfm", "ratio_reduction": "mean"},
    {"ratio": "cfm", "cfm": {"num_samples": 2, "per_sample": True}},
]
TOKEN_MODES = [mode for mode in MODES if mode["ratio"] != "cfm" and "ratio_norm" not in mode]


def objective(policy, **fields) -> Objective:
    cfg = ObjectiveConfig.model_validate(fields)
    adv = torch.linspace(-1.0, 2.0, ROWS, dtype=torch.float64)
    base = policy.reference_policy() if policy.reference_net is not None else None
    generator = torch.Generator().manual_seed(2)
    return Objective(
        cfg, policy, base, acted(policy, one_step=cfg.ratio == "single_step"), adv, generator
    )


@pytest.mark.parametrize("mode", MODES, ids=lambda m: "-".join(map(str, m.values())))
@pytest.mark.parametrize(("sampler", "fields"), SAMPLERS)
def test_ratios_are_one_before_the_first_step(sampler, fields, mode):
    """And the loss is minus the mean advantage, its gradient that of the policy gradient."""
    if mode["ratio"] == "cfm" and (sampler == "gaussian" or "finetune_steps" in fields):
        pytest.skip("refused, which test_cfm has")
    policy = make_policy(sampler, 4, **fields)
    if policy.cfg.finetune_steps:
        policy.freeze_reference()
    found = objective(policy, **mode, denoise_discount=1.0)
    every = found.loss(torch.arange(found.size))
    assert every.ratio_error < 1e-9
    assert every.clip_fraction == 0.0
    assert float(every.kl.abs().max()) < 1e-12
    assert float(every.loss.detach()) == pytest.approx(-0.5, abs=1e-9)
    units = found.likelihood.units
    scored = found.likelihood.score(policy, torch.arange(found.size))
    log_ratio = scored.trust_region_log_ratio / found._terms(units, scored.kernel)
    plain = -(found.data.adv[units.row] * log_ratio).mean()
    weights = [p for p in policy.parameters() if p.requires_grad]
    one, other = (torch.autograd.grad(of, weights, allow_unused=True) for of in (every.loss, plain))
    assert [each is None for each in one] == [each is None for each in other]
    torch.testing.assert_close(
        [g for g in one if g is not None], [g for g in other if g is not None]
    )
    assert sum(float(g.norm()) for g in one if g is not None) > 1e-4


@pytest.mark.parametrize("mode", TOKEN_MODES, ids=lambda m: "-".join(map(str, m.values())))
def test_ratios_of_tokens_are_one_before_the_first_step(mode):
    policy = make_policy("categorical", 3)
    found = objective(policy, **mode, denoise_discount=1.0)
    every = found.loss(torch.arange(found.size))
    assert every.ratio_error < 1e-9
    assert float(every.kl.abs().max()) < 1e-12
    every.loss.backward()
    assert policy.net.out.weight.grad.norm() > 1e-4


def test_settings_of_gaussian_noise_are_refused_for_tokens():
    policy = make_policy("categorical", 3)
    for fields in ({"ratio": "noise_conditioned"}, {"ratio_norm": "guard"}):
        with pytest.raises(ConfigError, match="is of Gaussian noise"):
            check_policy_supports(ObjectiveConfig.model_validate(fields), policy)
    check_policy_supports(ObjectiveConfig(entropy_coef=0.01), policy)


def test_a_single_trained_step_is_the_last_of_the_ramp(generator):
    policy = make_policy("flow_noise", 4, finetune_steps=1)
    policy.freeze_reference()
    found = objective(policy, ratio="per_step", clip=0.2, clip_base=0.02)
    with torch.no_grad():
        policy.net.out.bias += 0.05 * torch.randn(6, generator=generator).double()
        every = torch.arange(found.size)
        gap = (found.likelihood.score(policy, every).log_ratio.exp() - 1.0).abs()
    share = float((gap > 0.2).float().mean())
    assert 0.0 < share < float((gap > 0.02).float().mean())
    assert found.loss(every).clip_fraction == pytest.approx(share)


def test_the_denoising_discount_is_the_last_steps_one(generator):
    policy = make_policy("flow_noise", 4)
    found = objective(policy, ratio="per_step", denoise_discount=0.5)
    losses = [float(found.loss(torch.tensor([4 * 47 + k])).loss.detach()) for k in range(4)]
    assert losses == pytest.approx([-0.25, -0.5, -1.0, -2.0])


def test_epsilon_rises_along_the_trained_steps():
    """Ratios of 1.1 are clipped at the first of the trained steps and not at the last."""
    policy = make_policy("flow_noise", 4, finetune_steps=3)
    policy.freeze_reference()
    fields = {"clip": 0.2, "clip_high": 0.3, "clip_base": 0.02, "denoise_discount": 1.0}
    found = objective(policy, ratio="per_step", **fields)
    region = found._trust_region(torch.tensor([[1], [2], [3]]))
    share = math.expm1(1.5) / math.expm1(3.0)
    for end, last in ((region.low, 0.2), (region.high, 0.3)):
        between = 0.02 + (last - 0.02) * share
        assert torch.as_tensor(end).tolist() == pytest.approx([0.02, between, last])


def test_the_guard_is_what_the_trust_region_sees():
    """(ln r + KL(old ‖ new))·σ of a step, σ the step's own; the report keeps ln r."""
    policy = make_policy("flow_sde", 4)
    found = objective(policy, ratio="per_step", ratio_norm="guard")
    likelihood, pick = found.likelihood, torch.arange(found.size)
    units, old = likelihood.units, unit_kernel(policy, found.data, likelihood.units)
    assert isinstance(old, GaussianKernel)
    old = GaussianKernel(old.mean.detach(), old.std)
    with torch.no_grad():
        policy.net.out.bias += 0.02
    now = likelihood.score(policy, pick)
    assert now.kernel is not None
    kl = unit_sums(old.kl(now.kernel), found.data, units)[:, 0]
    sigma = old.std.flatten()
    torch.testing.assert_close(now.trust_region_log_ratio, (now.log_ratio + kl) * sigma)
    assert float(kl.min()) > 1e-4


def scored(*log_ratio: float) -> LogRatios:
    value = torch.tensor(log_ratio, dtype=torch.float64, requires_grad=True)
    return LogRatios(value, value, None, k3(value))


def test_the_log_ratio_is_bounded_in_the_loss_and_true_in_the_report():
    found = surrogate(
        scored(9.0),
        torch.tensor([-1.0]).double(),
        TrustRegionConfig(TrustRegion.CLIP, 0.2, 0.2, 5.0),
    )
    assert float(found.loss.detach()) == pytest.approx(math.exp(5.0))
    assert float(found.kl) == pytest.approx(math.exp(9.0) - 1.0 - 9.0)


def test_a_proximal_policy_takes_the_acting_ones_place_and_weighs_the_unit():
    """ln r_θ = 0.3 and ln r_prox = 0.2: the region holds e^0.1 < 1.2, the weight is e^0.2."""
    rule, adv = TrustRegionConfig(TrustRegion.CLIP, 0.2, 0.2, 5.0), torch.ones(1).double()
    found = surrogate(scored(0.3), adv, rule, torch.tensor([0.2]).double())
    assert float(found.loss.detach()) == pytest.approx(-math.exp(0.2) * math.exp(0.1))
    assert found.clip_fraction == 0.0
    assert surrogate(scored(0.3), adv, rule).clip_fraction == 1.0


@pytest.mark.parametrize("sampler", ["gaussian", "flow_noise"])
def test_the_entropy_bonus_is_the_joint_entropy_of_what_was_executed(sampler):
    """At σ in the middle of its bounds: ½·ln(2πe·σ²) an element, of num_exec·2 elements a step."""
    policy = make_policy(sampler, 4, sampler={"name": sampler, "std_min": 0.04, "std_max": 0.25})
    plain, bonus = (objective(policy, entropy_coef=value) for value in (0.0, 0.5))
    pick = torch.arange(ROWS)
    found = bonus.loss(pick)
    elements = policy.num_steps * 2 * (torch.arange(ROWS) % 2 + 1).double().mean()
    want = float(elements) * 0.5 * math.log(2.0 * math.pi * math.e * 0.1**2)
    assert float(found.extras["entropy"]) == pytest.approx(want)
    gain = float((plain.loss(pick).loss - found.loss).detach())
    assert gain == pytest.approx(0.5 * want)


@pytest.mark.parametrize("ratio", ["per_step", "joint", "single_step"])
@pytest.mark.parametrize("fields", [{}, SAMPLERS[7][1], SAMPLERS[8][1]])
def test_the_closed_form_kl_is_the_mean_of_the_log_ratio_with_a_lighter_tail(ratio, fields):
    """−ln r and its estimate k3 have the same mean over chains of the acting policy."""
    policy = make_policy("flow_noise", 4, **fields)
    if policy.cfg.finetune_steps:
        policy.freeze_reference()
    rollout = acted(policy, one_step=ratio == "single_step", rows=20_000)
    found = Objective(
        ObjectiveConfig.model_validate({"ratio": ratio}),
        policy,
        None,
        rollout,
        torch.zeros(20_000).double(),
        torch.Generator().manual_seed(2),
    )
    with torch.no_grad():
        policy.net.out.bias += 0.02
        scored = found.likelihood.score(policy, torch.arange(found.size))
    drawn = -scored.log_ratio
    noise = 4.0 * float(drawn.std()) / math.sqrt(found.size)
    assert float(scored.kl.mean()) > 0.2 * noise  # the shift is measurable
    assert float(scored.kl.mean()) == pytest.approx(float(drawn.mean()), abs=noise)
    estimate = k3(scored.log_ratio)
    assert float(estimate.mean()) == pytest.approx(float(scored.kl.mean()), rel=0.1)
    assert float(scored.kl.std()) < 0.8 * float(estimate.std())


@pytest.mark.parametrize("ratio", ["per_step", "joint"])
def test_of_means_the_ratio_is_the_root_of_the_joint_one_and_the_report_stays_joint(ratio):
    """By hand: r^(1/D), D the executed elements, 2 a step of 1 or 2 actions."""
    policy = make_policy("flow_noise", 4)
    fields = {"ratio": ratio, "clip": 9.0, "denoise_discount": 1.0}
    sums, means = (objective(policy, ratio_reduction=of, **fields) for of in ("sum", "mean"))
    with torch.no_grad():
        policy.net.out.bias += 0.05
    pick = torch.arange(sums.size)
    of_sums, of_means = sums.loss(pick), means.loss(pick)
    units, log_ratio = sums.likelihood.units, sums.likelihood.score(policy, pick).log_ratio.detach()
    dims = 2.0 * (units.row % 2 + 1) * units.k.shape[1]
    want = -(log_ratio / dims).exp() * sums.data.adv[units.row]
    assert float(of_means.loss.detach()) == pytest.approx(float(want.mean()))
    assert torch.equal(of_means.kl, of_sums.kl)
    assert of_means.ratio_error == of_sums.ratio_error


@pytest.mark.parametrize("of", ["sum", "mean"])
def test_published_entropy_goes_with_published_ratios(of):
    """At r = 1 the policy gradient and the bonus are both divided by D, or neither is."""
    policy = make_policy("flow_noise", 4)
    pick = torch.tensor([1, 3])  # of two executed actions, 16 elements a chain

    def gradient(entropy: float) -> torch.Tensor:
        policy.zero_grad()
        objective(policy, ratio_reduction=of, entropy_coef=entropy).loss(pick).loss.backward()
        params = [p for p in policy.parameters() if p.grad is not None]
        return torch.cat([p.grad.flatten() for p in params if p.grad is not None])

    dims = 1.0 if of == "sum" else 16.0
    plain, bonus = gradient(0.0), gradient(0.5) - gradient(0.0)
    policy.zero_grad()
    sums = objective(policy, entropy_coef=0.5)
    sums.loss(pick).loss.backward()
    whole = torch.cat([p.grad.flatten() for p in policy.parameters() if p.grad is not None])
    torch.testing.assert_close((plain + bonus) * dims, whole)


def test_the_entropy_bonus_widens_the_noise():
    policy = make_policy("flow_noise", 4)
    optim = torch.optim.Adam(policy.parameters(), lr=1e-2)
    entropies = []
    for _ in range(20):
        found = objective(policy, entropy_coef=1.0).loss(torch.arange(ROWS))
        entropies.append(found.extras["entropy"])
        optim.zero_grad()
        found.loss.backward()
        optim.step()
    assert entropies[-1] > entropies[0] + 1.0


def test_anchors_are_added_and_reported():
    policy = make_policy("flow_noise", 4)
    policy.freeze_reference()
    with torch.no_grad():
        policy.net.out.bias += 0.1
    pick = torch.arange(ROWS)
    plain = objective(policy).loss(pick)
    found = objective(policy, regularization={"reverse_kl": 2.0}).loss(pick)
    penalty = found.extras["regularization/reverse_kl"]
    assert penalty > 0.0
    assert float((found.loss - plain.loss).detach()) == pytest.approx(2.0 * penalty)


@pytest.mark.parametrize("sampler", ["ddpm", "ddim", "flow_sde", "flow_cps"])
def test_entropy_is_refused_where_noise_is_fixed(sampler):
    with pytest.raises(ConfigError, match="noise that is learnt"):
        check_policy_supports(ObjectiveConfig(entropy_coef=0.01), make_policy(sampler, 4))


def test_a_policy_without_a_density_is_refused_unless_its_ratio_needs_none():
    policy = make_policy("flow_noise", 4, sampler={"name": "flow_ode"})
    with pytest.raises(ConfigError, match="both stochastic and trained"):
        check_policy_supports(ObjectiveConfig(), policy)
    cfg = ObjectiveConfig.model_validate({"ratio": "cfm"})
    check_policy_supports(cfg, policy)
    assert objective(policy, ratio="cfm").loss(torch.arange(ROWS)).ratio_error < 1e-9


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"ratio": "joint", "clip_base": 0.01}, "no single step"),
        ({"ratio": "cfm", "ratio_norm": "guard"}, "ratio_norm"),
        ({"ratio": "cfm", "entropy_coef": 0.1}, "entropy"),
        ({"ratio": "joint", "ratio_norm": "guard", "ratio_reduction": "mean"}, "ratio_reduction"),
        ({"ratio": "cfm", "regularization": {"bc_rollout": 0.1}}, "regularization"),
    ],
)
def test_options_that_mean_nothing_together_are_refused(fields, says):
    with pytest.raises(ValidationError, match=says):
        ObjectiveConfig.model_validate(fields)


def test_no_anchor_keeps_no_base():
    assert not RegularizationConfig().enabled
    assert RegularizationConfig(bc_rollout=1.0).enabled
    assert not RegularizationConfig(bc_rollout=1.0).needs_reference
