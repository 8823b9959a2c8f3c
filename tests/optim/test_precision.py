"""Networks in bfloat16: what is kept stays float32, and a ratio of the same weights is 1."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_blocks import ROWS, acted
from small_policies import make_policy
from torch import Tensor

from robo_rl.algo.ppo.actor_update import ActorConfig, PpoActor
from robo_rl.algo.ppo.batch.actor_batch import ActorBatch, unit_kernel
from robo_rl.algo.ppo.ratio_units import RatioMode, make_units
from robo_rl.core.errors import PluginError
from robo_rl.data.rollout import Rollout
from robo_rl.optim.precision import Precision, autocast
from robo_rl.policy.kernels.gaussian import GaussianKernel

ADV = torch.linspace(-1.0, 1.0, ROWS)
CASES = [
    ("gaussian", "joint"),
    ("ddpm", "per_step"),
    ("flow_noise", "joint"),
    ("flow_sde", "single_step"),
]


def block(policy, ratio: str = "joint") -> Rollout:
    return acted(policy, one_step=ratio == "single_step")


def actor(policy, **fields: Any) -> PpoActor:
    cfg = ActorConfig.model_validate({"minibatch": 16, "lr": 1e-3, "target_kl": 1.0, **fields})
    return PpoActor(cfg, policy, torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("sampler", "ratio"), CASES)
@pytest.mark.parametrize("norm", ["none", "guard"])
def test_the_first_ratio_is_one_and_what_is_kept_is_float32(sampler, ratio, norm):
    policy = make_policy(sampler, 4).float()
    made = actor(policy, precision="bf16", ratio=ratio, ratio_norm=norm)
    before = [p.detach().clone() for p in policy.parameters()]
    assert made.update(block(policy, ratio), ADV)["ratio_error"] < 1e-3
    moved = [bool((p != old).any()) for p, old in zip(policy.parameters(), before, strict=True)]
    assert sum(moved) >= len(moved) - 1
    assert all(p.dtype == torch.float32 for p in policy.parameters())
    assert all(s["exp_avg"].dtype == torch.float32 for s in made.optimizer.optim.state.values())


def test_networks_run_in_it_and_kernels_do_not():
    policy = make_policy("flow_noise", 4).float()
    seen: list[torch.dtype] = []
    policy.net.out.register_forward_hook(lambda module, given, out: seen.append(out.dtype))
    data = ActorBatch.of(block(policy), ADV)
    seen.clear()
    units = make_units(RatioMode.JOINT, ROWS, torch.arange(4), None)
    with torch.no_grad(), autocast(Precision.BF16, policy):
        rough = unit_kernel(policy, data, units)
    with torch.no_grad(), autocast(Precision.FP32, policy):
        exact = unit_kernel(policy, data, units)
    assert seen == [torch.bfloat16, torch.float32]
    assert isinstance(rough, GaussianKernel)
    assert rough.mean.dtype == rough.std.dtype == torch.float32
    error = (rough.mean - exact.mean).abs().max()
    assert 0.0 < float(error) < 0.03


def test_what_was_acted_is_scored_anew_where_numbers_differ_and_only_there():
    """A block whose log-probabilities are another device's: refused, or never looked at."""
    for precision, refused in (("fp32", True), ("bf16", False)):
        policy = make_policy("flow_noise", 4).float()
        made, rollout = actor(policy, precision=precision), block(policy)
        rollout.log_prob += 0.1
        if refused:
            with pytest.raises(PluginError, match="not 1"):
                made.update(rollout, ADV)
        else:
            assert made.update(rollout, ADV)["ratio_error"] < 1e-3


def test_its_gradient_points_where_the_exact_one_does():
    def gradient(precision: str) -> Tensor:
        policy = make_policy("flow_noise", 4).float()
        fit = actor(policy, precision=precision, minibatch=ROWS, epochs=1)
        taken: list[Tensor] = []
        fit.optimizer.step = lambda loss, share=1.0: taken.extend(
            g.flatten() for g in torch.autograd.grad(loss, fit.optimizer.params, allow_unused=False)
        )
        fit.update(block(policy), ADV)
        return torch.cat(taken)

    exact, rough = gradient("fp32"), gradient("bf16")
    assert float(torch.cosine_similarity(exact, rough, dim=0)) > 0.99
    assert not torch.equal(exact, rough)
