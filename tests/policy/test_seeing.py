"""Policies that see images pass the suite of every policy, and all that is done with policies."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_images import OBS, make_seeing_policy, make_seen

from robo_rl.bundle.session import PolicySession
from robo_rl.core.errors import SpecError
from robo_rl.core.spec import TOKEN, ObsSpec, TensorSpec
from robo_rl.critic.inputs import critic_inputs, unread_words
from robo_rl.critic.value import ValueCritic
from robo_rl.export.onnx import contract_of, export_policy
from robo_rl.policy.one_step import make_one_step_student
from robo_rl.testing.policy import check_policy


@pytest.mark.parametrize("family", ["flow", "diffusion", "gaussian"])
@pytest.mark.parametrize("history", [1, 2])
def test_a_seeing_policy_conforms(family, history):
    check_policy(lambda: make_seeing_policy(family, obs_horizon=history), family)


def test_a_student_starts_with_the_eyes_of_its_teacher():
    teacher, obs = make_seeing_policy(finetune_steps=1), make_seen(3)
    student = make_one_step_student(teacher)
    assert torch.equal(student.encode(obs), teacher.encode(obs))
    assert student.obs_spec == teacher.obs_spec
    assert student.env_spec == teacher.env_spec == OBS


def test_the_frozen_steps_keep_the_eyes_of_the_clone():
    policy, obs, noise = make_seeing_policy(finetune_steps=1), make_seen(3), torch.randn(3, 3, 2)
    policy.freeze_reference()
    before = policy.decode_normalized(obs, noise)
    chain = policy.sample(obs, torch.Generator().manual_seed(1)).x
    with torch.no_grad():
        for weight in policy.net.encoder.parameters():
            weight.zero_()
    blind = policy.decode_normalized(obs, noise)
    after = policy.sample(obs, torch.Generator().manual_seed(1)).x
    assert torch.equal(after[:, :-1], chain[:, :-1])
    assert not torch.equal(after[:, -1], chain[:, -1])
    assert not torch.equal(blind, before)
    assert torch.equal(policy.reference_policy().decode_normalized(obs, noise), before)


@pytest.mark.slow
def test_the_graph_takes_bytes_and_divides_inside(tmp_path):
    policy = make_seeing_policy().eval()
    contract = contract_of(policy, name="flow", robot="r", task="t")
    graph = export_policy(policy, tmp_path / "policy.onnx").read_bytes()
    session = PolicySession(graph, contract)
    assert tuple(contract.obs.items) == ("pos", "front_rgb", "top_grey")
    obs, noise = make_seen(4), torch.randn(4, 3, 2)
    seen = {name: obs[name].numpy() for name in contract.obs.items}
    assert seen["front_rgb"].dtype == np.uint8
    with torch.no_grad():
        ours = policy.decode(obs, noise).numpy()
    assert np.allclose(session.act(seen, noise.numpy()), ours, atol=1e-5)


def test_a_critic_reads_the_vectors_that_the_policy_does_not_see():
    policy, obs = make_seeing_policy(), make_seen(4)
    critic = ValueCritic(ValueCritic.Config(), policy.env_spec, 1, policy.normalizer)
    assert critic.names == ("pos", "object_pos")
    moved = {**obs, "object_pos": obs["object_pos"] + 1.0}
    assert (critic(moved) - critic(obs)).abs().min() > 0.0
    other = ValueCritic.Config(sees=("pos",))
    assert ValueCritic(other, policy.env_spec, 1, policy.normalizer).names == ("pos",)
    for wrong in (("front_rgb",), ("object",)):
        with pytest.raises(SpecError, match=r"critic\.sees"):
            critic_inputs(OBS, wrong)


def test_a_critic_that_knows_no_instruction_is_a_doubt_and_reads_none():
    text = TensorSpec(shape=(4,), dtype="int64", unit=TOKEN)
    spec = ObsSpec(items={"pos": TensorSpec(shape=(2,)), "instruction": text})
    with pytest.raises(SpecError, match=r"critic\.sees.*found instruction.*text_encoder=sentence"):
        critic_inputs(spec, ("pos", "instruction"))
    doubt = unread_words(spec)
    assert doubt is not None
    assert "found none, beside instruction" in str(doubt)
    assert unread_words(spec, ("pos",)) is None
    assert unread_words(critic_inputs(spec)) is None
