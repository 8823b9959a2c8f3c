"""Flow policies whose networks are VLAs: LeRobot's chunks by our chain, and PPO on them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_vla import (
    ACT,
    FOLDERS,
    KINDS,
    OBS,
    WORDS,
    assert_near,
    observations,
    small_vla_policy,
    tiny_vla,
    vla_settings,
)
from torch import Tensor

from robo_rl.algo.ppo.ppo import Ppo
from robo_rl.config.component import component
from robo_rl.config.models import validate_strict
from robo_rl.core.errors import ConfigError, SpecError
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.data.normalize import Normalizer
from robo_rl.data.rollout import Rollout, RolloutBuilder
from robo_rl.nets.embedding import repeat_rows, select_rows
from robo_rl.nets.vla.encoder import latest_columns
from robo_rl.nets.vla.lerobot.networks import policy_settings
from robo_rl.policy.archive import policy_from_meta, policy_meta
from robo_rl.policy.base import DenoisingPolicy

ENVS, DECISIONS = 6, 3


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_chain_integrates_lerobots_velocity_in_our_time(
    kind: str, monkeypatch: pytest.MonkeyPatch
):
    vla = tiny_vla(kind)
    settings = policy_settings(FOLDERS / kind, vla.described.config, scale_tokens=False)
    images = {"front": (3, 64, 64), "wrist": (3, 48, 64)}
    items = {
        "state": TensorSpec(shape=(6,)),
        **{name: TensorSpec(shape=shape, dtype="uint8") for name, shape in images.items()},
        "instruction": TensorSpec(shape=(8,), dtype="int64", unit="token"),
    }
    obs_spec = ObsSpec(items=items)
    act_spec = ActSpec(shape=(8,), rate_hz=10.0, low=(-1.0,) * 8, high=(1.0,) * 8)
    made = component("policies").make(settings)
    policy = made.build(obs_spec, act_spec, Normalizer.identity(obs_spec, act_spec))
    policy.net.encoder.prefix.load_state_dict(vla.networks.prefix.state_dict())
    policy.net.expert.load_state_dict(vla.networks.expert.state_dict())
    monkeypatch.setattr(policy.net, "encode", lambda _: vla.prefix())  # images that are no uint8
    rows = {name: torch.zeros(3, 1, *spec.shape, dtype=getattr(torch, spec.dtype))
            for name, spec in items.items()}  # fmt: skip
    chunk = policy.decode_normalized(rows, vla.case["noise"])
    assert_near(chunk, vla.case["chunk"])


@pytest.mark.parametrize("kind", KINDS)
def test_all_that_a_policy_reads_changes_its_actions(kind: str):
    policy = small_vla_policy(kind)
    for name, param in policy.named_parameters():
        if ".dense." in name:  # gates of π0.5 begin at 0
            torch.nn.init.normal_(param, generator=torch.Generator().manual_seed(2))
    obs, noise = observations(4), torch.randn(4, 4, 2, generator=torch.Generator().manual_seed(1))
    before = policy.decode(obs, noise)
    shorter = obs["instruction"].clone()
    shorter[..., 1:] = -1
    others: dict[str, Tensor] = {
        "front": 255 - obs["front"],
        "instruction": torch.where(obs["instruction"] < 0, -1, obs["instruction"] % 63 + 1),
    }
    if kind != "pi05":  # its state is among the words
        others["state"] = obs["state"] + 1.0
    for name, value in others.items():
        assert not torch.allclose(policy.decode({**obs, name: value}, noise), before), name
    longer = {**obs, "instruction": torch.cat([shorter, shorter[..., 1:]], dim=-1)}
    same = policy.decode({**obs, "instruction": shorter}, noise)
    torch.testing.assert_close(policy.decode(longer, noise), same, rtol=1e-4, atol=1e-5)


def test_the_state_is_that_of_the_latest_step_whatever_the_history():
    """Each vector comes with all of its steps, one after the other."""
    spec = ObsSpec(
        items={
            "grip": TensorSpec(shape=(1,)),
            "front": TensorSpec(shape=(3, 8, 8), dtype="uint8"),
            "pos": TensorSpec(shape=(3,)),
        }
    )
    rows = {"grip": torch.tensor([[[1.0], [2.0]]]), "pos": torch.arange(6.0).view(1, 2, 3)}
    act = ActSpec(shape=(1,), rate_hz=10.0)
    found = Normalizer.identity(spec, act).features(rows, spec.vector_names, compressed=False)
    assert found[:, latest_columns(spec, 2)].tolist() == [[2.0, 3.0, 4.0, 5.0]]
    assert latest_columns(spec, 1).tolist() == [0, 1, 2, 3]


def test_a_grey_camera_is_refused():
    items = {**OBS.items, "front": TensorSpec(shape=(1, 64, 64), dtype="uint8")}
    made = component("policies").make(
        {"name": "flow", **small_vla_policy("smolvla").cfg.model_dump(mode="json")}
    )
    with pytest.raises(SpecError, match=r"image 'front'.*three channels"):
        made.cls.check_obs(made.cfg, ObsSpec(items=items))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_a_prefix_are_those_of_their_observations(kind: str):
    policy, obs = small_vla_policy(kind), observations(3)
    rows = torch.tensor([2, 0])
    picked = repeat_rows(select_rows(policy.encode(obs), rows), 2)
    again = policy.encode({name: o[rows.repeat_interleave(2)] for name, o in obs.items()})
    assert type(picked) is type(again)
    for one, other in zip(leaves(picked), leaves(again), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "policy", "algo"),
    [
        ("smolvla", {"sampler": "flow_sde"}, {"ratio": "single_step"}),
        ("smolvla", {}, {"ratio": "joint", "critic_reads": "embedding"}),
        ("pi0", {}, {"ratio": "joint"}),
        ("pi0", {"finetune_steps": 2}, {"ratio": "per_step"}),
        ("pi05", {"correlation": {"noise": 0.3}}, {"ratio": "noise_conditioned"}),
        ("pi05", {"sampler": "flow_ode"}, {"ratio": "cfm"}),
    ],
)
def test_ppo_trains_a_vla_as_it_trains_an_mlp(
    kind: str, policy: dict[str, Any], algo: dict[str, Any]
):
    """The ratio is 1 before the first step, and an update changes the expert and the backbone."""
    made = small_vla_policy(kind, **policy)
    if made.num_trained < made.num_steps:
        made.freeze_reference()
    cfg = validate_strict({"minibatch": 9, "epochs": 1, "warmup_updates": 0, **algo}, Ppo.Config)
    ppo = Ppo(cfg, made, ENVS, torch.Generator().manual_seed(3))
    before = {name: p.detach().clone() for name, p in made.named_parameters()}
    metrics = ppo.update(block(made, single_step=algo["ratio"] == "single_step"))
    assert metrics["ratio_error"] < 1e-5
    moved = {name for name, p in made.named_parameters() if not torch.equal(p, before[name])}
    assert any("expert" in name for name in moved)
    assert any("patch_embedding" in name for name in moved)


def test_a_frozen_backbone_stays_and_the_expert_learns():
    settings = small_vla_policy("smolvla").cfg.model_dump(mode="json")
    settings["encoder"]["freeze_vlm"] = True
    made = component("policies").make({"name": "flow", **settings})
    policy = made.build(OBS, ACT, Normalizer.identity(OBS, ACT))
    trained = {name for name, p in policy.named_parameters() if p.requires_grad}
    assert not any(".vlm." in name for name in trained)
    assert any("state_proj" in name for name in trained)
    policy.loss(observations(2), torch.zeros(2, 4, 2), torch.Generator()).mean().backward()
    assert all(p.grad is not None for n, p in policy.named_parameters() if "action_in" in n)


@pytest.mark.parametrize("kind", KINDS)
def test_an_archive_needs_no_folder(kind: str):
    policy, obs = small_vla_policy(kind), observations(2)
    again = policy_from_meta(policy_meta(policy), policy.state_dict())
    noise = torch.zeros(2, 4, 2)
    assert torch.equal(policy.decode(obs, noise), again.decode(obs, noise))


@pytest.mark.parametrize(
    ("items", "told"),
    [
        ({"instruction": None}, "reads one text"),
        ({"state": TensorSpec(shape=(5,))}, "vectors with 1 to 4 elements"),
        ({"front": None}, "no image among the observations"),
    ],
)
def test_observations_that_a_vla_cannot_read_are_refused(
    items: dict[str, TensorSpec | None], told: str
):
    changed = {**OBS.items, **items}
    spec = ObsSpec(items={name: each for name, each in changed.items() if each is not None})
    cfg = small_vla_policy("pi0").cfg
    with pytest.raises(SpecError, match=told):
        DenoisingPolicy.check_obs(cfg, spec)


def test_an_action_wider_than_the_network_is_refused():
    wide = ActSpec(shape=(4,), rate_hz=10.0, low=(-1.0,) * 4, high=(1.0,) * 4)
    settings = small_vla_policy("pi0").cfg.model_dump(mode="json")
    made = component("policies").make({"name": "flow", **settings})
    with pytest.raises(ConfigError, match="at least 4, found 3"):
        made.build(OBS, wide, Normalizer.identity(OBS, wide))


@torch.no_grad()
def block(policy: DenoisingPolicy, *, single_step: bool) -> Rollout:
    """A rollout of random observations and rewards."""
    draws, builder = torch.Generator().manual_seed(5), RolloutBuilder()
    no = torch.zeros(ENVS, dtype=torch.bool)
    for step in range(DECISIONS):
        obs = observations(ENVS, step)
        chain = policy.sample(obs, draws, single_step=single_step)
        columns = {
            "x": chain.x,
            "log_prob": chain.log_prob[:, :, : policy.exec_horizon].sum(dim=(2, 3)),
            "rew": torch.rand(ENVS, generator=draws),
            "terminated": no,
            "truncated": no,
            "valid": ~no,
            "discount": torch.full((ENVS,), 0.99),
            "num_exec": torch.full((ENVS,), policy.exec_horizon),
        }
        if chain.k_star is not None:
            columns["k_star"] = chain.k_star
        builder.add(obs, observations(ENVS, step + 1), columns)
    return builder.finish(observations(ENVS, DECISIONS))


def leaves(embedding: Any) -> list[Tensor]:
    if isinstance(embedding, Tensor):
        return [embedding]
    return [leaf for part in embedding for leaf in leaves(part)]


@pytest.mark.parametrize("kind", KINDS)
def test_ids_beyond_the_vocabulary_are_refused(kind: str):
    vocabulary = 64
    for high, fits in ((vocabulary - 1.0, True), (float(vocabulary), False)):
        text = OBS.items["instruction"].model_copy(update={"high": (high,) * WORDS})
        spec = ObsSpec(items={**OBS.items, "instruction": text})
        policy = component("policies").make(vla_settings(kind))
        if fits:
            policy.build(spec, ACT, Normalizer.identity(spec, ACT))
            continue
        with pytest.raises(SpecError, match=r"vocab_size.*at least 65.*found 64"):
            policy.build(spec, ACT, Normalizer.identity(spec, ACT))
