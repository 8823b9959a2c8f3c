"""The ratio given the chain's noise: replays are exact, and gradients reach every trained step."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import ValidationError
from small_blocks import ROWS, acted
from small_policies import make_policy

from robo_rl.algo.ppo.batch.actor_batch import ActorBatch, embed_units
from robo_rl.algo.ppo.objective import Objective, ObjectiveConfig, check_policy_supports
from robo_rl.algo.ppo.ratio_units import RatioMode, make_units
from robo_rl.core.errors import ConfigError
from robo_rl.policy.base import DenoisingPolicy

MODE = RatioMode.NOISE_CONDITIONED
OFFSET = {"name": "flow_noise", "std_min": 0.03, "std_max": 0.1, "chunk_correlation": 1.0}
CASES = [
    ("gaussian", {}),
    ("ddpm", {}),
    ("ddim", {}),
    ("flow_sde", {}),
    ("flow_noise", {}),
    ("flow_noise", {"sampler": {**OFFSET, "chunk_correlation": 0.7}}),
    ("flow_noise", {"sampler": OFFSET, "finetune_steps": 2}),
]


def made(family: str, steps: int = 4, **fields: Any) -> Any:
    policy = make_policy(family, steps, **fields)
    if policy.cfg.finetune_steps:
        policy.freeze_reference()
    return policy


def last_units(policy: DenoisingPolicy, rows: int):
    return make_units(MODE, rows, policy.trainable_steps.nonzero().flatten(), None)


@pytest.mark.parametrize(("sampler", "fields"), CASES)
def test_a_replayed_chain_ends_where_the_sampled_one_did(sampler, fields):
    policy = made(sampler, **fields).float()
    data = ActorBatch.of(acted(policy), torch.zeros(ROWS)).replayed(policy)
    units = last_units(policy, ROWS)
    assert data.replay is not None
    with torch.no_grad():
        again = data.replay.last_state(policy, embed_units(policy, data, units), units.row)
    torch.testing.assert_close(again, data.x[:, -2], rtol=0, atol=1e-6)


def test_the_gradient_is_that_of_a_loop_by_hand():
    """Of the mean ln N(x[K]; x[K−1] + v·dt, σ²), where x[K−1] comes from x[0] and the noise."""
    policy = made("flow_noise", 3)
    rollout = acted(policy)
    data = ActorBatch.of(rollout, torch.ones(ROWS, dtype=torch.float64))
    embedding, (low, high) = policy.encode(data.obs.items), (0.05, 0.15)

    def step(k: int, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        t = torch.full((ROWS,), k / 3, dtype=torch.float64)
        raw = policy.noise_head(torch.cat([embedding, t[:, None]], dim=-1)).view_as(x)
        vel = (policy.net(x, t, embedding) - x) / (1 - t)[:, None, None]
        return x + vel / 3, low * (high / low) ** (0.5 * (raw.tanh() + 1))

    x = data.x[:, 0]
    for k in range(2):
        with torch.no_grad():
            mean, std = step(k, data.x[:, k])
            noise = (data.x[:, k + 1] - mean) / std
        mean, std = step(k, x)
        x = mean + std * noise
    log_prob = torch.distributions.Normal(*step(2, x)).log_prob(data.x[:, 3])
    by_hand = -(log_prob * data.executed).sum(dim=(1, 2)).mean()
    cfg = ObjectiveConfig(ratio=MODE)
    ours = Objective(cfg, policy, None, rollout, data.adv, torch.Generator())
    parameters = list(policy.parameters())
    want = torch.autograd.grad(by_hand, parameters)
    found = torch.autograd.grad(ours.loss(torch.arange(ROWS)).loss, parameters)
    for one, other in zip(found, want, strict=True):
        torch.testing.assert_close(one, other)


def test_kl_to_the_reference_is_between_the_ends_of_both_chains_from_one_noise():
    """½·(Δμ/σ)² over the executed actions, both policies at the state that each reaches itself."""
    policy = made("flow_noise")
    policy.freeze_reference()
    cfg = ObjectiveConfig.model_validate({"ratio": MODE, "regularization": {"reverse_kl": 1.0}})
    base, rollout = policy.reference_policy(), acted(policy)
    every, adv = torch.arange(ROWS), torch.zeros(ROWS, dtype=torch.float64)
    ours = Objective(cfg, policy, base, rollout, adv, torch.Generator())
    assert ours.loss(every).extras["regularization/reverse_kl"] == 0.0
    replay, units = ours.data.replay, ours.likelihood.units
    assert replay is not None
    ends, std = [], 0.0
    with torch.no_grad():
        policy.net.out.bias += 0.02
        for each in (policy, base):
            embedding = embed_units(each, ours.data, units)
            x = replay.last_state(each, embedding, units.row)
            law = each.kernel(embedding, units.k[:, 0], x)
            ends, std = [*ends, law.mean], law.std
        terms = 0.5 * ((ends[0] - ends[1]) / std).square() * ours.data.executed
        found = ours.loss(every).extras["regularization/reverse_kl"]
    torch.testing.assert_close(found, terms.sum(dim=(1, 2)).mean())


@pytest.mark.parametrize(
    ("sampler", "fields"),
    [
        ("flow_cps", {"prediction_type": "vel"}),
        ("flow_noise", {"sampler": {"name": "flow_ode"}}),
        ("ddpm", {"sampler": {"name": "ddpm", "std_min": 0.0}}),
    ],
)
def test_a_chain_without_noise_at_its_end_is_refused(sampler, fields):
    with pytest.raises(ConfigError, match=r"draws no noise|stochastic"):
        check_policy_supports(ObjectiveConfig(ratio=MODE), made(sampler, **fields))


def test_a_ramp_over_steps_is_refused():
    with pytest.raises(ValidationError, match="clip_base"):
        ObjectiveConfig(ratio=MODE, clip_base=0.01)
