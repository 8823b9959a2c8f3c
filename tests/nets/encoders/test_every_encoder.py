"""What every encoder of images does: rows apart, places told apart, the same graph in ONNX."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
import torch
from small_images import ACT, make_seeing_policy

from robo_rl.bundle.session import PolicySession
from robo_rl.config.component import component
from robo_rl.core.errors import ConfigError
from robo_rl.core.spec import ObsSpec, TensorSpec
from robo_rl.data.normalize import Normalizer
from robo_rl.export.onnx import contract_of, export_policy
from robo_rl.nets.encoders.base import ObsFeatures
from robo_rl.testing.policy import check_policy

SIDE = 40
OBS = ObsSpec(
    items={
        "eye": TensorSpec(shape=(3, SIDE, SIDE), dtype="uint8"),
        "pos": TensorSpec(shape=(2,)),
    }
)
SMALL = {
    "conv": {"channels": (4, 6, 8), "width": 12},
    "resnet18": {"channels": (8, 8, 16, 16), "groups": 4, "width": 12},
    "vit": {"channels": 32, "depth": 1, "heads": 2, "width": 32},
}


def small_policy(name: str):
    torch.manual_seed(0)
    fields = {"name": "flow", "encoder": {"name": name, **SMALL[name]}, "horizon": 3}
    fields |= {"exec_horizon": 2, "net": {"name": "mlp", "width": 16, "depth": 1}}
    return component("policies").make(fields).build(OBS, ACT, Normalizer.identity(OBS, ACT))


FAST = [
    pytest.param(name, marks=[pytest.mark.slow] * (name in ("resnet18", "vit"))) for name in SMALL
]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "resnet18")) for name in SMALL]
)
def test_a_policy_with_it_conforms(name):
    check_policy(lambda: small_policy(name), "flow")


def spots(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (rows, 1, 3, S, S) of a white spot, and its places (rows, 2) in [-1, 1]."""
    places = torch.randint(3, SIDE - 3, (rows, 2), generator=torch.Generator().manual_seed(1))
    images = torch.zeros(rows, 1, 3, SIDE, SIDE, dtype=torch.uint8)
    for image, (row, column) in zip(images[:, 0], places.tolist(), strict=True):
        image[:, row - 3 : row + 3, column - 3 : column + 3] = 255
    return images, 2.0 * places / SIDE - 1.0


@pytest.mark.parametrize("name", FAST)
def test_it_learns_where_a_spot_is(name):
    """The place of a spot, on images that were not shown, after 200 steps."""
    images, places = spots(400)
    torch.manual_seed(0)
    encoder = component("encoders").make({"name": name, **SMALL[name]}).build(OBS, 1)
    head = torch.nn.Linear(encoder.num_features, 2)
    optim = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=1e-3)

    def error(rows: slice) -> torch.Tensor:
        seen = encoder(ObsFeatures(torch.zeros(len(images[rows]), 2), {"eye": images[rows]}))
        return (head(seen) - places[rows]).square().mean()

    for step in range(200):
        optim.zero_grad()
        error(slice(50 * (step % 6), 50 * (step % 6) + 50)).backward()
        optim.step()
    with torch.no_grad():
        left = error(slice(300, 400)) / places[300:].var()
    assert float(left) < 0.3


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name != "conv")) for name in SMALL]
)
def test_the_graph_is_the_policy(name, tmp_path):
    policy = small_policy(name).eval()
    contract = contract_of(policy, name="flow", robot="r", task="t")
    session = PolicySession(export_policy(policy, tmp_path / "p.onnx").read_bytes(), contract)
    generator = torch.Generator().manual_seed(2)
    eye = torch.randint(256, (3, 1, 3, SIDE, SIDE), generator=generator).to(torch.uint8)
    obs = {"eye": eye, "pos": torch.randn(3, 1, 2, generator=generator)}
    noise = torch.randn(3, 3, 2, generator=generator)
    with torch.no_grad():
        ours = policy.decode(obs, noise).numpy()
    theirs = session.act({key: value.numpy() for key, value in obs.items()}, noise.numpy())
    assert np.allclose(theirs, ours, atol=1e-4)


@pytest.mark.parametrize("name", ["conv", "resnet18"])
def test_no_image_is_too_small_to_be_seen(name):
    """The smallest image that is taken matters, and a smaller one is an error."""
    least = import_module(f"robo_rl.nets.encoders.{name.removesuffix('18')}").SMALLEST
    made = component("encoders").make({"name": name, **SMALL[name]})

    def spec(side: int) -> ObsSpec:
        return ObsSpec(items={"eye": TensorSpec(shape=(3, side, side), dtype="uint8")})

    torch.manual_seed(0)
    encoder, none = made.build(spec(least), 1), torch.zeros(2, 0)
    images = torch.randint(256, (2, 1, 3, least, least)).to(torch.uint8)
    with torch.no_grad():
        one, other = encoder(ObsFeatures(none, {"eye": images}))
    assert (one - other).abs().max() > 1e-3
    with pytest.raises(ConfigError, match="too small"):
        made.build(spec(least - 1), 1)


def test_settings_that_do_not_fit_are_one_line():
    wrong = {"resnet18": {"groups": 7}, "vit": {"channels": 18, "heads": 4}}
    for name, fields in wrong.items():
        with pytest.raises(ValueError, match="no multiple of"):
            component("encoders").make({"name": name, **fields})
    with pytest.raises(ConfigError, match=r"multiples of 16 pixels.*44 × 36"):
        make_seeing_policy(encoder={"name": "vit", "patch": 16})
