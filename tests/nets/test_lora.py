"""Adapters of low rank: what they change, what is trained, and what a merge leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from small_vla import ACT, KINDS, OBS, observations, small_vla_policy, vla_settings
from torch import nn

from robo_rl.config.component import component
from robo_rl.core.errors import ConfigError
from robo_rl.data.normalize import Normalizer
from robo_rl.export.onnx import export_policy
from robo_rl.export.split import export_split
from robo_rl.nets.lora import LoraConfig, add_adapters, base_weights, merge_adapters
from robo_rl.policy.archive import policy_from_meta, policy_meta
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.one_step import make_one_step_student

NOISE = torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(1))


def adapted(kind: str, **lora: Any) -> DenoisingPolicy:
    """A small VLA with adapters in its prefix and its expert."""
    settings = small_vla_policy(kind).cfg.model_dump(mode="json")
    for part in ("encoder", "net"):
        settings[part]["lora"] = {"rank": 2, **lora}
    torch.manual_seed(0)
    made = component("policies").make({"name": "flow", **settings})
    return made.build(OBS, ACT, Normalizer.identity(OBS, ACT))


def moved(policy: DenoisingPolicy) -> DenoisingPolicy:
    """The policy after random steps of all that is trained."""
    draws = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for param in policy.parameters():
            if param.requires_grad:
                param += 0.1 * torch.randn(param.shape, generator=draws)
    return policy


@pytest.mark.parametrize("kind", KINDS)
def test_adapters_begin_with_the_network_as_it_is_and_train_nothing_else_of_it(kind: str):
    policy, plain = adapted(kind), small_vla_policy(kind)
    for part in ("encoder.prefix", "expert"):
        bare = base_weights(policy.net.get_submodule(part))
        wanted = plain.net.get_submodule(part).state_dict()
        assert bare.keys() == wanted.keys()
        for name, weight in bare.items():
            weight.copy_(wanted[name])
    obs = observations(3)
    assert torch.equal(policy.decode(obs, NOISE), plain.decode(obs, NOISE))
    trained = {name for name, p in policy.net.named_parameters() if p.requires_grad}
    assert any(".lora_A." in name and "prefix" in name for name in trained)
    assert any(".lora_B." in name and "expert" in name for name in trained)
    projections = ("state_proj", "action_", "time_mlp")
    others = {n for n in trained if ".lora_" not in n and not any(p in n for p in projections)}
    assert not others


@pytest.mark.parametrize("kind", KINDS)
def test_layers_that_are_computed_again_give_the_same_gradients(kind: str):
    found, calls = list[dict[str, torch.Tensor]](), list[int]()
    for again in (False, True):
        policy = adapted(kind)
        settings = policy.cfg.model_dump(mode="json")
        for part in ("encoder", "net"):
            settings[part]["gradient_checkpointing"] = again
        made = component("policies").make({"name": "flow", **settings})
        other = made.build(OBS, ACT, Normalizer.identity(OBS, ACT))
        other.load_state_dict(moved(policy).state_dict())
        draws, count = torch.Generator().manual_seed(3), list[int]()
        for part in (other.net.expert, other.net.encoder.prefix):
            *_, layer = (m for n, m in part.named_modules() if n.endswith("q_proj"))
            layer.register_forward_hook(lambda *_, count=count: count.append(1))
        other.loss(observations(3), NOISE, draws).mean().backward()
        calls.append(len(count))
        found.append({n: p.grad for n, p in other.named_parameters() if p.grad is not None})
    assert calls == [2, 4]  # once each, and once more on the way back
    assert found[0].keys() == found[1].keys()
    torch.testing.assert_close(found[0], found[1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_merge_computes_the_same_by_the_names_of_a_network_without_adapters(kind: str):
    policy, obs = moved(adapted(kind)), observations(3)
    before = policy.decode(obs, NOISE)
    assert not torch.allclose(before, adapted(kind).decode(obs, NOISE), atol=1e-3)
    merge_adapters(policy)
    torch.testing.assert_close(policy.decode(obs, NOISE), before, rtol=1e-4, atol=1e-5)
    assert policy.state_dict().keys() == small_vla_policy(kind).state_dict().keys()


def test_an_archive_and_a_student_have_the_adapters():
    policy, obs = moved(adapted("smolvla")), observations(3)
    again = policy_from_meta(policy_meta(policy), policy.state_dict())
    assert torch.equal(policy.decode(obs, NOISE), again.decode(obs, NOISE))
    student = make_one_step_student(policy)
    assert student.net.state_dict().keys() == policy.net.state_dict().keys()


def test_a_rank_scales_as_the_paper_says():
    net: Any = nn.ModuleDict({"net": nn.ModuleDict({"proj": nn.Linear(3, 4, bias=False)})})
    before = net["net"]["proj"].weight.detach().clone()
    add_adapters(net, LoraConfig(rank=2, alpha=6, targets=("proj",)), "lora")
    adapter = net["net"]["proj"]
    down, up = adapter.lora_A["default"].weight, adapter.lora_B["default"].weight
    assert not up.any()
    nn.init.ones_(up)
    merge_adapters(net)
    torch.testing.assert_close(net["net"]["proj"].weight, before + 6 / 2 * torch.ones(4, 2) @ down)


def test_layers_that_do_not_exist_are_refused():
    with pytest.raises(ConfigError, match=r"encoder.lora.targets.*found v_porj.*'v_proj'"):
        adapted("pi0", targets=["q_proj", "v_porj"])
    assert adapted("pi0", targets=["self_attn.q_proj"])


def test_a_backbone_that_is_frozen_has_no_adapters():
    settings = vla_settings("smolvla")
    settings["encoder"] |= {"freeze_vlm": True, "lora": {}}
    with pytest.raises(ValueError, match="freeze_vlm: with lora"):
        component("policies").make(settings)


@pytest.mark.slow
@pytest.mark.parametrize("split", [False, True])
def test_exports_hold_no_adapter_and_act_alike(split: bool, tmp_path: Path):
    policy = moved(adapted("pi0")).eval()
    settings = policy.cfg.model_dump(mode="json")
    for part in ("encoder", "net"):
        settings[part]["gradient_checkpointing"] = True
    made = component("policies").make({"name": "flow", **settings})
    other = made.build(OBS, ACT, Normalizer.identity(OBS, ACT)).eval()
    other.load_state_dict(policy.state_dict())
    if split:  # tried on several batches, beside the policy
        graphs = list(export_split(other, tmp_path).values())
    else:
        graphs = [export_policy(other, tmp_path / "policy.onnx").read_bytes()]
    assert not any(b"lora_" in graph for graph in graphs)
