"""Anchors: divergences in hand-worked numbers and by Monte Carlo, and chains that are cloned."""

from __future__ import annotations

import math

import pytest
import torch
from small_policies import make_obs, make_policy
from torch import Tensor

from robo_rl.algo.encoded_obs import EncodedObs
from robo_rl.algo.ppo.batch.actor_batch import ActorBatch, unit_kernel
from robo_rl.algo.ppo.ratio_units import RatioMode, Units, make_units
from robo_rl.algo.ppo.regularizers import RegularizationConfig, Regularizer, unit_kl
from robo_rl.policy.kernels.gaussian import GaussianKernel

ROWS = 64


def one_unit(steps: int, horizon: int, executed: int) -> tuple[ActorBatch, Units]:
    mask = (torch.arange(horizon) < executed)[None, :, None]
    none = torch.zeros(1)
    return ActorBatch(EncodedObs({}), none, none, none, mask), Units(
        torch.tensor([0]), torch.arange(steps)[None]
    )


def kernels(mean: float, std: float, steps: int, horizon: int) -> GaussianKernel:
    shape = (steps, horizon, 1)
    return GaussianKernel(torch.full(shape, mean).double(), torch.full(shape, std).double())


def test_divergences_by_hand():
    """Means 0.1 apart, σ 0.2 both: ‖Δμ‖²/2σ² = 0.125 an element; 2 steps of 3 actions have 6."""
    data, units = one_unit(steps=2, horizon=4, executed=3)
    ours, base = kernels(0.3, 0.2, 2, 4), kernels(0.2, 0.2, 2, 4)
    assert float(unit_kl(ours, base, data, units)) == pytest.approx(0.75)
    assert float(unit_kl(base, ours, data, units)) == pytest.approx(0.75)


def test_the_two_directions_differ_where_the_noise_does():
    """KL(N(0, 0.1²) ‖ N(0.1, 0.2²)) = ln 2 + 0.02/0.08 − ½, and back −ln 2 + 0.05/0.02 − ½."""
    data, units = one_unit(steps=1, horizon=1, executed=1)
    narrow, wide = kernels(0.0, 0.1, 1, 1), kernels(0.1, 0.2, 1, 1)
    to_wide, to_narrow = (
        float(unit_kl(a, b, data, units)) for a, b in ((narrow, wide), (wide, narrow))
    )
    assert to_wide == pytest.approx(math.log(2) + 0.25 - 0.5)
    assert to_narrow == pytest.approx(-math.log(2) + 2.5 - 0.5)


def test_divergences_are_what_sampling_gives(generator):
    data, units = one_unit(steps=2, horizon=3, executed=2)
    ours, base = kernels(0.1, 0.3, 2, 3), kernels(0.0, 0.4, 2, 3)
    wide = GaussianKernel(
        ours.mean[:, None].expand(-1, 100_000, -1, -1).flatten(0, 1), ours.std[:1, :1]
    )
    x = wide.sample(generator)
    other = GaussianKernel(torch.zeros_like(wide.mean), base.std[:1, :1])
    gap = (wide.log_prob(x) - other.log_prob(x))[:, :2].sum(dim=(1, 2))
    estimate = gap.view(2, -1).sum(0).mean()
    assert float(unit_kl(ours, base, data, units)) == pytest.approx(float(estimate), rel=0.02)


def test_a_chunk_that_is_bent_is_not_at_the_base_though_its_offset_is():
    """One offset of noise: means ±0.3 off in turn have no offset, ½·(0.3/0.2)² an action."""
    data, units = one_unit(steps=1, horizon=4, executed=4)
    turn = torch.tensor([0.3, -0.3, 0.3, -0.3]).double().view(1, 4, 1)
    std = torch.full((1, 4, 1), 0.2).double()
    ours, base = GaussianKernel(turn, std, 1.0), GaussianKernel(torch.zeros_like(turn), std, 1.0)
    assert float(ours.kl(base).sum()) == pytest.approx(0.0, abs=1e-12)
    assert float(unit_kl(ours, base, data, units)) == pytest.approx(4 * 0.5 * (0.3 / 0.2) ** 2)
    moved = GaussianKernel(torch.full_like(turn, 0.3), std, 1.0)
    assert float(unit_kl(moved, base, data, units)) == pytest.approx(0.5 * (0.3 / 0.2) ** 2)
    assert not bool(GaussianKernel(turn, std).kl_shape_term(GaussianKernel(turn + 1.0, std)).any())


def anchored(cfg: RegularizationConfig, finetune_steps: int = 0):
    """A policy that has moved from its base, its block, and the anchor."""
    policy = make_policy("flow_noise", 4, finetune_steps=finetune_steps)
    policy.freeze_reference()
    base = policy.reference_policy()
    obs = make_obs(ROWS)
    with torch.no_grad():
        policy.net.out.bias += 0.2
        chain = policy.sample(obs, torch.Generator().manual_seed(1))
    executed = torch.ones(ROWS, policy.horizon, 1, dtype=torch.bool)
    scores = chain.log_prob.sum(dim=(2, 3))
    data = ActorBatch(EncodedObs(obs), chain.x, scores, torch.zeros(ROWS), executed)
    steps = policy.trainable_steps.nonzero().flatten()
    units = make_units(RatioMode.JOINT, ROWS, steps, None)
    generator = torch.Generator().manual_seed(2)
    anchor = Regularizer(cfg, policy, base, data, units, generator)
    pick = torch.arange(ROWS)
    return policy, anchor, lambda: anchor.penalties(policy, unit_kernel(policy, data, units), pick)


@pytest.mark.parametrize("finetune_steps", [0, 2])
def test_a_policy_at_its_base_diverges_from_it_by_nothing(finetune_steps):
    policy, _, penalties = anchored(
        RegularizationConfig(forward_kl=1.0, reverse_kl=1.0), finetune_steps
    )
    away = penalties()
    with torch.no_grad():
        policy.net.out.bias -= 0.2
    at_home = penalties()
    for name in ("forward_kl", "reverse_kl"):
        assert float(away[name].min()) > 0.01
        torch.testing.assert_close(at_home[name], torch.zeros(ROWS).double(), rtol=0, atol=1e-9)


def test_forward_is_from_the_base_and_reverse_from_the_policy():
    """Narrowed noise is far from where the base went, and near to where it might have gone."""
    policy, _, penalties = anchored(RegularizationConfig(forward_kl=1.0))
    with torch.no_grad():
        policy.net.out.bias -= 0.2
        assert policy.noise_head is not None
        dict(policy.noise_head.named_parameters())["2.bias"].sub_(1.0)
    found = penalties()
    assert bool((found["forward_kl"] > 1.2 * found["reverse_kl"]).all())


@pytest.mark.parametrize("name", ["forward_kl", "reverse_kl", "bc_reference"])
def test_descending_an_anchor_leads_back_to_the_base(name):
    policy, anchor, penalties = anchored(RegularizationConfig.model_validate({name: 1.0}))
    base = policy.reference_policy()
    obs, noise = make_obs(ROWS, 3), torch.randn(ROWS, 3, 2).double()

    def gap() -> float:
        with torch.no_grad():
            return float((policy.decode(obs, noise) - base.decode(obs, noise)).square().mean())

    before = gap()
    optim = torch.optim.Adam([p for p in policy.parameters() if p.requires_grad], lr=3e-3)
    for _ in range(30):
        optim.zero_grad()
        anchor.total(penalties()).backward()
        optim.step()
    assert gap() < 0.5 * before


def test_cloning_ones_own_chains_pulls_nowhere_at_first():
    """The mean of a score is zero: an anchor to the policy that acted, and no reward."""
    policy, anchor, penalties = anchored(RegularizationConfig(bc_rollout=1.0))
    bias = policy.net.out.bias
    own = torch.autograd.grad(anchor.total(penalties()), bias)[0]
    policy, anchor, penalties = anchored(RegularizationConfig(bc_reference=1.0))
    base = torch.autograd.grad(anchor.total(penalties()), policy.net.out.bias)[0]
    assert float(own.norm()) < 0.3 * float(base.norm())


def test_penalties_add_up_by_their_coefficients():
    _, anchor, penalties = anchored(RegularizationConfig(forward_kl=0.5, bc_reference=2.0))
    found = penalties()
    want = 0.5 * found["forward_kl"].mean() + 2.0 * found["bc_reference"].mean()
    torch.testing.assert_close(anchor.total(found), want)


def test_annealed_noise_is_the_bases_too():
    """A base that was anchored under other noise is compared under the noise of today."""
    policy = make_policy("flow_noise", 4, sampler={"name": "flow_noise", "std_max": 0.15})
    policy.freeze_reference()
    base = policy.reference_policy()
    sampler = policy.cfg.sampler
    policy.sampler = sampler.cls(sampler.cfg.model_copy(update={"std_max": 0.06}), 4)
    obs = make_obs(ROWS)
    with torch.no_grad():
        chain = policy.sample(obs, torch.Generator().manual_seed(1))
    executed = torch.ones(ROWS, policy.horizon, 1, dtype=torch.bool)
    data = ActorBatch(EncodedObs(obs), chain.x, chain.log_prob, torch.zeros(ROWS), executed)
    units = make_units(RatioMode.JOINT, ROWS, torch.arange(4), None)
    cfg = RegularizationConfig(forward_kl=1.0)
    anchor = Regularizer(cfg, policy, base, data, units, torch.Generator())
    found: dict[str, Tensor] = anchor.penalties(
        policy, unit_kernel(policy, data, units), torch.arange(ROWS)
    )
    torch.testing.assert_close(found["forward_kl"], torch.zeros(ROWS).double(), atol=1e-9, rtol=0)
