"""The encoder of images: each camera, frame and vector matters; layouts and scales are right."""

from __future__ import annotations

import pytest
import torch
from small_images import ACT, ENCODER, OBS, make_seeing_policy, make_seen

from robo_rl.config.component import component
from robo_rl.core.errors import ConfigError, SpecError
from robo_rl.core.spec import ObsSpec, TensorSpec
from robo_rl.data.normalize import Normalizer
from robo_rl.nets.encoders import base
from robo_rl.nets.encoders.base import ObsFeatures


def encoder(spec: ObsSpec = OBS, history: int = 1, **fields):
    torch.manual_seed(0)
    return component("encoders").make({**ENCODER, **fields}).build(spec, history)


def features_of(obs) -> ObsFeatures:
    vectors = torch.cat([obs[name].flatten(1) for name in OBS.vector_names], dim=1)
    return ObsFeatures(vectors, {name: obs[name] for name in OBS.image_names})


@pytest.mark.parametrize("history", [1, 3])
def test_features_are_the_vectors_and_each_frame_of_each_camera(history):
    net, obs = encoder(history=history), make_seen(5, history)
    out = net(features_of(obs))
    assert out.shape == (5, net.num_features) == (5, history * (3 + 2 + 2 * 10))
    assert torch.equal(out[:, : history * 5], features_of(obs).vectors)


@pytest.mark.parametrize("name", OBS.image_names)
def test_every_frame_matters_to_its_own_row_alone(name):
    net, obs = encoder(history=2), make_seen(4, 2)
    before = net(features_of(obs))
    for frame in range(2):
        changed = {key: value.clone() for key, value in obs.items()}
        changed[name][1, frame] = 255 - changed[name][1, frame]
        moved = (net(features_of(changed)) - before).abs().amax(dim=1)
        assert moved[1] > 1e-4
        assert moved[[0, 2, 3]].max() < 1e-5


def test_parts_without_a_gradient_are_the_whole(monkeypatch):
    net, obs = encoder(), make_seen(7)
    whole = net(features_of(obs))
    monkeypatch.setattr(base, "FRAMES_AT_ONCE", 3)
    sizes = []
    for backbone in net.backbones.values():
        backbone.register_forward_pre_hook(lambda _, args: sizes.append(len(args[0])))
    with torch.no_grad():
        parts = net(features_of(obs))
    assert sizes == [3, 3, 1] * 2
    assert torch.allclose(parts, whole, atol=1e-6)
    assert net(features_of(make_seen(0))).shape == (0, net.num_features)


def test_a_layout_is_no_matter():
    """The same picture as (h, w, C) and as (C, h, w) gives the same features."""
    last = ObsSpec(items={"eye": TensorSpec(shape=(40, 36, 3), dtype="uint8")})
    first = ObsSpec(items={"eye": TensorSpec(shape=(3, 40, 36), dtype="uint8")})
    picture = torch.randint(256, (2, 1, 40, 36, 3)).to(torch.uint8)
    none = torch.zeros(2, 0)
    one = encoder(last)(ObsFeatures(none, {"eye": picture}))
    other = encoder(first)(ObsFeatures(none, {"eye": picture.permute(0, 1, 4, 2, 3)}))
    assert torch.equal(one, other)


def test_pixels_are_scaled_to_one_on_either_side():
    seen = []
    net = encoder()
    for backbone in net.backbones.values():
        backbone.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    obs = make_seen(1)
    obs["front_rgb"].fill_(0)
    obs["top_grey"].fill_(255)
    net(features_of(obs))
    assert float(seen[0].min()) == float(seen[0].max()) == -1.0
    assert float(seen[1].min()) == pytest.approx(1.0, abs=1e-6)
    assert seen[1].shape == (1, 1, 40, 40)


def test_cameras_of_one_size_may_share_a_backbone():
    two = {name: TensorSpec(shape=(3, 36, 36), dtype="uint8") for name in ("left", "right")}
    apart, shared = encoder(ObsSpec(items=two)), encoder(ObsSpec(items=two), shared=True)
    count = [sum(p.numel() for p in net.parameters()) for net in (apart, shared)]
    assert count[0] == 2 * count[1]
    with pytest.raises(ConfigError, match="different sizes share a backbone"):
        encoder(shared=True)


def test_bad_pictures_are_refused_in_one_line():
    small = ObsSpec(items={"eye": TensorSpec(shape=(3, 24, 64), dtype="uint8")})
    with pytest.raises(ConfigError, match=r"too small.*64 × 24"):
        encoder(small)
    four = ObsSpec(items={"eye": TensorSpec(shape=(4, 64, 64), dtype="uint8")})
    with pytest.raises(SpecError, match=r"'eye' is no image that a policy reads"):
        encoder(four)


def refused(spec: ObsSpec, **fields) -> str:
    family = component("policies").make({"name": "flow", **fields})
    with pytest.raises(SpecError) as caught:
        family.build(spec, ACT, Normalizer.identity(spec, ACT))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_policy_says_what_it_cannot_see():
    assert "policy.encoder=conv" in refused(OBS)
    states = ObsSpec(items={"pos": OBS.items["pos"]})
    assert "no image among the observations" in refused(states, encoder="conv")
    assert "did you mean 'front_rgb'?" in refused(OBS, encoder="conv", sees=["front_rbg"])


def test_a_policy_reads_only_what_it_sees():
    policy, obs = make_seeing_policy(), make_seen(4)
    noise = torch.randn(4, 3, 2)
    act = policy.decode(obs, noise)
    blind = {**obs, "object_pos": obs["object_pos"] + 9.0}
    assert torch.equal(policy.decode(blind, noise), act)
    assert tuple(policy.obs_spec.items) == ("pos", "front_rgb", "top_grey")
    seen = {name: obs[name] for name in policy.obs_spec.items}
    assert torch.equal(policy.decode(seen, noise), act)
