"""The anchored base: what the policy was, whatever it becomes and however many steps it trains."""

from __future__ import annotations

import pytest
import torch
from small_policies import make_obs, make_policy

from robo_rl.core.errors import ConfigError


@pytest.mark.parametrize("finetune_steps", [0, 2])
@pytest.mark.parametrize("sampler", ["gaussian", "ddim", "flow_noise"])
def test_the_base_explores_as_the_policy_did_when_it_was_anchored(sampler, finetune_steps):
    k_trained = {} if sampler == "gaussian" else {"finetune_steps": finetune_steps}
    policy, obs = make_policy(sampler, 4, **k_trained), make_obs(8)
    policy.freeze_reference()
    with torch.no_grad():
        before = policy.sample(obs, torch.Generator().manual_seed(1)).x
        for parameter in policy.parameters():
            if parameter.requires_grad:
                parameter += 0.1
        base = policy.reference_policy()
        again = base.sample(obs, torch.Generator().manual_seed(1)).x
        moved = policy.sample(obs, torch.Generator().manual_seed(1)).x
    assert torch.equal(before, again)
    assert not torch.equal(before, moved)
    assert not any(parameter.requires_grad for parameter in base.parameters())


def test_an_anchor_changes_nothing_of_a_policy_all_of_whose_steps_are_trained(generator):
    policy, obs = make_policy("flow_noise", 4), make_obs(8)
    with torch.no_grad():
        before = policy.sample(obs, torch.Generator().manual_seed(1)).x
        policy.freeze_reference()
        assert policy.reference_net is not None
        for parameter in policy.reference_net.parameters():
            parameter += 0.1
        after = policy.sample(obs, torch.Generator().manual_seed(1)).x
    assert torch.equal(before, after)


def test_the_base_sees_what_the_policy_sees_whenever_it_is_made():
    """Statistics that move, move for both, so that a base made after a resume is the one before."""
    policy, obs = make_policy("flow_noise", 4), make_obs(8)
    policy.freeze_reference()
    early = policy.reference_policy()
    policy.normalizer.set_affine("obs.pos", torch.ones(3), torch.full((3,), 2.0))
    acted = [
        base.act(obs, torch.Generator().manual_seed(1))
        for base in (early, policy.reference_policy(), policy)
    ]
    assert torch.equal(acted[0], acted[1])
    assert torch.equal(acted[0], acted[2])  # its weights have not moved


def test_a_policy_without_an_anchor_has_no_base():
    with pytest.raises(ConfigError, match="freeze_reference"):
        make_policy("flow_noise", 4).reference_policy()
