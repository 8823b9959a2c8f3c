"""A critic of the policy's embedding: for worlds of images alone; it never trains the encoder."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
import torch
from small_images import ACT, ENCODER, make_seeing_policy, make_seen

from robo_rl.config.component import component
from robo_rl.core.errors import SpecError
from robo_rl.core.spec import ObsSpec, TensorSpec
from robo_rl.critic.embedded import EMBEDDING, embedded, embedding_critic
from robo_rl.critic.value import ValueCritic
from robo_rl.data.normalize import Normalizer

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

IMAGES = ObsSpec(items={"eye": TensorSpec(shape=(3, 40, 40), dtype="uint8")})


def blind_free_policy():
    """A policy of a world of images alone."""
    fields = {"name": "flow", "encoder": ENCODER, "horizon": 3, "exec_horizon": 2}
    family = component("policies").make(fields)
    return family.build(IMAGES, ACT, Normalizer.identity(IMAGES, ACT))


def test_embeddings_keep_their_rows_and_have_no_gradient():
    policy, obs = make_seeing_policy(), make_seen(12)
    block = {name: value.unflatten(0, (3, 4)) for name, value in obs.items()}
    found = embedded(policy, block, 2)[EMBEDDING]
    assert found.shape == (3, 4, 1, policy.net.embed_dim)
    assert not found.requires_grad
    assert torch.allclose(found.flatten(0, 1)[:, 0].mean(dim=-1), torch.zeros(12), atol=1e-5)
    one = embedded(policy, {name: value[7:8] for name, value in obs.items()}, 1)[EMBEDDING]
    assert torch.allclose(one[0], found[1, 3], atol=1e-5)
    none = {name: value[:0] for name, value in obs.items()}  # no episode ended in a rollout
    assert embedded(policy, none, 1)[EMBEDDING].shape == (0, 1, policy.net.embed_dim)


def test_a_world_of_images_alone_has_this_critic_and_no_other():
    policy = blind_free_policy()
    with pytest.raises(SpecError, match=r"critic\.sees.*an env of images and texts alone"):
        ValueCritic(ValueCritic.Config(), policy.env_spec, 1, policy.normalizer)
    critic = embedding_critic(ValueCritic.Config(hidden=(8,)), policy)
    eye = torch.randint(256, (5, 1, 3, 40, 40)).to(torch.uint8)
    assert critic(embedded(policy, {"eye": eye}, 1)).shape == (5,)


def test_ppo_learns_with_it():
    """An update fits the critic and trains the encoder, by the policy's loss alone."""
    world = import_module("_device_world")
    cpu = torch.device("cpu")
    policy = world.make_policy(cpu, encoder={"name": "conv", **world.EYES["conv"]})
    cfg = {"name": "ppo", "minibatch": 64, "warmup_updates": 1, "critic_reads": "embedding"}
    algo = component("algos").make(cfg).build(policy, world.NUM_ENVS, world.generator(cpu))
    eyes = [each.detach().clone() for each in policy.net.encoder.parameters()]
    block = world.make_block(policy, cpu)
    nothing = {name: value[:0] for name, value in block.final_obs.items()}
    algo.advantage_estimator.compute_advantages(
        replace(block, ended=block.ended[:0], final_obs=nothing)
    )
    metrics = algo.update(block)
    assert metrics["value_loss"] > 0.0
    same = zip(eyes, policy.net.encoder.parameters(), strict=True)
    assert all(torch.equal(before, after) for before, after in same)  # the critic alone learnt
    algo.update(world.make_block(policy, cpu))
    same = zip(eyes, policy.net.encoder.parameters(), strict=True)
    assert not all(torch.equal(before, after) for before, after in same)
