"""A frozen encoder runs once an update, and what it said is what it would say again."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_images import make_seeing_policy, make_seen
from small_vla import KINDS, observations, small_vla_policy

from robo_rl.algo.encoded_obs import EncodedObs, encoded_bytes
from robo_rl.algo.ppo.batch.actor_batch import slices
from robo_rl.algo.ppo.ppo import Ppo
from robo_rl.algo.ppo.ratio_units import Units
from robo_rl.config.models import validate_strict
from robo_rl.data.rollout import Rollout, RolloutBuilder
from robo_rl.nets.embedding import encode_in_parts
from robo_rl.policy.base import DenoisingPolicy

ENVS = 8


def leaves(embedding: Any) -> list[torch.Tensor]:
    if isinstance(embedding, torch.Tensor):
        return [embedding]
    return [leaf for part in embedding for leaf in leaves(part)]


@torch.no_grad()
def block(policy: DenoisingPolicy) -> Rollout:
    """Two decisions of every env."""
    builder, draw = RolloutBuilder(), torch.Generator().manual_seed(1)
    yes = torch.ones(ENVS, dtype=torch.bool)
    for number in range(2):
        obs = make_seen(ENVS, seed=number)
        chain = policy.sample(obs, draw)
        columns = {"x": chain.x, "log_prob": chain.log_prob.sum(dim=(2, 3))}
        columns |= {"rew": torch.randn(ENVS, generator=draw), "discount": torch.ones(ENVS)}
        ended = {"terminated": yes, "truncated": ~yes, "valid": yes}
        builder.add(obs, obs, {**columns, **ended, "num_exec": torch.full((ENVS,), 3)})
    return builder.finish(obs, None)


def updated(*, freeze: bool, frozen_by_hand: bool = False) -> tuple[DenoisingPolicy, int]:
    """A policy after one update, and how often its encoder ran in it."""
    policy = make_seeing_policy(exec_horizon=3)
    rollout, calls = block(policy), []
    if frozen_by_hand:
        policy.net.encoder.requires_grad_(False)
    fields = {"minibatch": 8, "epochs": 2, "warmup_updates": 0, "freeze_encoder": freeze}
    cfg = validate_strict({**fields, "lr_probe": False, "target_kl": 0.0}, Ppo.Config)
    ppo = Ppo(cfg, policy, ENVS, torch.Generator().manual_seed(0))
    policy.net.encoder.register_forward_hook(lambda *_: calls.append(1))
    ppo.update(rollout)
    return policy, len(calls)


def test_an_update_is_that_of_an_encoder_that_runs_again_and_takes_no_gradient():
    kept, once = updated(freeze=True)
    again, often = updated(freeze=False, frozen_by_hand=True)
    assert once == 1 < often
    fresh = make_seeing_policy(exec_horizon=3)
    for (name, one), other, before in zip(
        kept.named_parameters(), again.parameters(), fresh.parameters(), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
        assert torch.equal(one, before) == (".encoder." in f".{name}"), name


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_rows_of_a_tree_are_those_of_their_observations(kind: str):
    policy, items = small_vla_policy(kind), observations(4)
    obs, rows = EncodedObs(items), torch.tensor([3, 1])
    encoded = obs.through(policy)
    for chosen in (rows, slice(1, 3)):
        found, wanted = encoded.encode(policy, chosen), obs.encode(policy, chosen)
        assert type(found) is type(wanted)
        for one, other in zip(leaves(found), leaves(wanted), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    picked = encoded.select(rows)
    for one, other in zip(
        leaves(picked.encode(policy, slice(None))),
        leaves(encoded.encode(policy, rows)),
        strict=True,
    ):
        assert torch.equal(one, other)


@torch.no_grad()
def test_a_pass_holds_as_many_embeddings_as_the_memory(monkeypatch: pytest.MonkeyPatch):
    large, small = small_vla_policy(KINDS[0]), make_seeing_policy()
    obs = EncodedObs(observations(5))
    assert EncodedObs({}).kernels_at_once(small) == 16384
    monkeypatch.setattr("robo_rl.algo.encoded_obs._BYTES_AT_ONCE", 3 * encoded_bytes(large) + 1)
    assert obs.kernels_at_once(large) == obs.through(large).kernels_at_once(large) == 3
    units = Units(torch.arange(5), torch.arange(2).expand(5, -1))
    assert [len(part.row) for part in slices(units, large, obs)] == [1] * 5
    monkeypatch.setattr("robo_rl.nets.embedding._ROWS_AT_ONCE", 3)
    embed = large.net.encoder
    parts = encode_in_parts(obs.items, lambda part: embed(large.features(part)))
    for one, other in zip(leaves(parts), leaves(embed(large.features(obs.items))), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
