"""A pretrained transformer sees as transformers' own does, never learns, and is read with care."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from small_images import make_seeing_policy, make_seen
from small_vit import save_vit

from robo_rl.bundle.session import PolicySession
from robo_rl.config.component import component
from robo_rl.core.errors import ConfigError
from robo_rl.core.spec import ObsSpec, TensorSpec
from robo_rl.export.onnx import contract_of, export_policy
from robo_rl.nets.encoders.base import ObsFeatures
from robo_rl.testing.policy import check_policy
from robo_rl.train.checkpoint.policies import load_policy, save_policy

pytest.importorskip("transformers")

SIDE = 40
OBS = ObsSpec(
    items={
        "eye": TensorSpec(shape=(3, SIDE, SIDE), dtype="uint8"),
        "pos": TensorSpec(shape=(2,)),
    }
)


@pytest.fixture(scope="module", params=["dinov2", "siglip"])
def folder(request, tmp_path_factory):
    return save_vit(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def dino(tmp_path_factory):
    return save_vit(tmp_path_factory.mktemp("dino"))


def encoder(folder: Any, **fields: Any) -> Any:
    torch.manual_seed(0)
    settings = {"name": "frozen", "folder": str(folder), "grid": 2, "width": 12, **fields}
    return component("encoders").make(settings).build(OBS, 1)


def policy_of(folder: Any, **fields: Any) -> Any:
    settings = {"name": "frozen", "folder": str(folder), "grid": 2, "width": 12}
    return make_seeing_policy(encoder=settings, **fields)


def images(rows: int = 4) -> torch.Tensor:
    shape = (rows, 1, 3, SIDE, SIDE)
    return torch.randint(256, shape, generator=torch.Generator().manual_seed(3)).to(torch.uint8)


def seen(eye: torch.Tensor) -> ObsFeatures:
    return ObsFeatures(torch.zeros(len(eye), 2), {"eye": eye})


def test_its_tokens_are_those_of_transformers(folder):
    import transformers

    net, eye = encoder(folder), images()
    whole = transformers.AutoModel.from_pretrained(folder).eval()
    scales = json.loads((folder / "preprocessor_config.json").read_text())
    mean, std = (torch.tensor(scales[k]).reshape(1, 3, 1, 1) for k in ("image_mean", "image_std"))
    square = torch.nn.functional.interpolate(eye[:, 0] / 255.0, (32, 32), mode="bilinear")
    with torch.no_grad():
        model = getattr(whole, "vision_model", whole)
        tokens = model((square - mean) / std).last_hidden_state[:, -16:]
    blocks = tokens.reshape(4, 2, 2, 2, 2, 24).mean(dim=(2, 4))  # 2 × 2 places of 2 × 2 patches
    wanted = blocks.permute(0, 3, 1, 2).flatten(1)
    found = net.trunk(eye[:, 0], torch.float32)
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3)


def test_a_place_is_one_row_of_the_projection(dino):
    """Channels of one place alone are normalised and projected together."""
    net = encoder(dino)
    projection = next(iter(net.backbones.values()))
    rows = []
    norm = next(each for each in projection.modules() if isinstance(each, torch.nn.LayerNorm))
    norm.register_forward_pre_hook(lambda _, args: rows.append(args[0]))
    features = torch.randn(1, 24 * 4, generator=torch.Generator().manual_seed(1))
    moved = features.unflatten(1, (24, 2, 2)).clone()
    moved[:, :, 1, 0] += 1.0  # of the trunk's average over places
    projection(torch.cat([features, moved.flatten(1)]))
    first, second = rows[0]
    assert torch.equal(first[2], features.unflatten(1, (24, 2, 2))[0, :, 1, 0])
    assert (first != second).any(dim=-1).tolist() == [False, False, True, False]


def test_it_is_computed_once_and_never_learns(dino):
    net, eye = encoder(dino).train(), images()
    before = {name: value.clone() for name, value in net.trunk.state_dict().items()}
    mapped = []
    net.trunk.model.register_forward_pre_hook(lambda _, args: mapped.append(len(args[0])))
    optim = torch.optim.AdamW(net.parameters(), lr=0.1, weight_decay=0.1)
    first = net(seen(eye))
    for _ in range(3):
        optim.zero_grad()
        net(seen(eye)).square().sum().backward()
        optim.step()
    assert sum(mapped) == 4
    assert not torch.equal(net(seen(eye)), first)
    assert all(torch.equal(before[name], x) for name, x in net.trunk.state_dict().items())


def test_features_are_of_one_precision(dino):
    """What an update in bfloat16 keeps is what an evaluation in float32 would have computed."""
    net, other, eye = encoder(dino), encoder(dino), images()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        net(seen(eye))
    assert torch.equal(net(seen(eye)), other(seen(eye)))


def test_a_copy_shares_what_is_computed_until_it_loads_weights(dino):
    net, eye = encoder(dino), images()
    first = net(seen(eye))
    copy = deepcopy(net)
    copy.trunk.model.register_forward_pre_hook(lambda *_: pytest.fail("computed again"))
    assert torch.equal(copy(seen(eye)), first)
    other = deepcopy(net)
    other.load_state_dict({k: 1.5 * x for k, x in net.state_dict().items()})
    other(seen(eye))
    assert torch.equal(net(seen(eye)), first)


def test_other_weights_are_other_features(dino):
    net, eye = encoder(dino), images()
    first = net(seen(eye))
    state = {name: x * 1.5 if "layer" in name else x for name, x in net.state_dict().items()}
    net.load_state_dict(state)
    assert (net(seen(eye)) - first).abs().max() > 1e-3


def test_the_cache_changes_no_number(dino):
    eye = images(12)
    kept, computed = encoder(dino), encoder(dino, cached_frames=0)
    for rows in (slice(0, 6), slice(3, 12), slice(0, 12)):
        assert torch.allclose(kept(seen(eye[rows])), computed(seen(eye[rows])), atol=2e-3)


def test_a_policy_with_it_conforms(dino):
    check_policy(lambda: policy_of(dino), "flow")


@pytest.mark.slow
def test_a_policy_with_it_is_saved_and_exported(dino, tmp_path):
    policy, obs = policy_of(dino).eval(), make_seen(3)
    noise = torch.randn(3, 3, 2, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        act = policy.decode(obs, noise)
        again = load_policy(save_policy(tmp_path / "policy", policy)).eval().decode(obs, noise)
    assert torch.equal(act, again)
    contract = contract_of(policy, name="flow", robot="r", task="t")
    session = PolicySession(export_policy(policy, tmp_path / "p.onnx").read_bytes(), contract)
    read = {name: obs[name].numpy() for name in policy.obs_spec.items}
    assert np.allclose(session.act(read, noise.numpy()), act.numpy(), atol=1e-3)


def refused(folder: Any, **fields: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        encoder(folder, **fields)
    assert "policy.encoder" in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_folder_that_is_no_model_is_one_line(dino, tmp_path):
    assert "no such folder" in refused(tmp_path / "nowhere")
    assert "preprocessor_config.json" in refused(tmp_path)
    assert "a multiple of 8 × grid = 24" in refused(dino, grid=3)
    scales = (dino / "preprocessor_config.json").read_text()
    (tmp_path / "preprocessor_config.json").write_text(scales.replace("0.2", "0.0"))
    assert "image_std" in refused(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(scales)
    assert "no model that transformers reads" in refused(tmp_path)
    config = json.loads((dino / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    weights = (dino / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(weights)
    assert "weights of the model are missing" in refused(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    assert "no model that transformers reads" in refused(tmp_path)


def test_a_pickle_is_not_read(dino, tmp_path):
    for name in ("config.json", "preprocessor_config.json"):
        (tmp_path / name).write_bytes((dino / name).read_bytes())
    torch.save({}, tmp_path / "pytorch_model.bin")
    assert "no model that transformers reads" in refused(tmp_path)


def test_a_network_of_text_is_refused(dino, tmp_path):
    import transformers

    sizes: dict[str, Any] = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = transformers.BertConfig(**sizes, intermediate_size=8, vocab_size=9)
    transformers.BertModel(config).save_pretrained(tmp_path)
    scales = (dino / "preprocessor_config.json").read_bytes()
    (tmp_path / "preprocessor_config.json").write_bytes(scales)
    assert "does not map images to tokens of patches" in refused(tmp_path)
