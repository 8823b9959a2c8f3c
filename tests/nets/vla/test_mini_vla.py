"""The small encoder follows the instruction, and finds in the image what it names."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from robo_rl.config.component import component
from robo_rl.core.errors import ConfigError, SpecError
from robo_rl.core.spec import TOKEN, ActSpec, ObsSpec, TensorSpec
from robo_rl.data.normalize import Normalizer
from robo_rl.language.byte_text import ByteText
from robo_rl.nets.encoders.base import ObsFeatures
from robo_rl.nets.vla.mini_vla import MiniVlaEncoder
from robo_rl.testing.policy import check_policy

SIDE, LENGTH = 32, 24
TEXT = TensorSpec(shape=(LENGTH,), dtype="int64", unit=TOKEN)
EYE = TensorSpec(shape=(3, SIDE, SIDE), dtype="uint8")
OBS = ObsSpec(items={"pos": TensorSpec(shape=(2,)), "eye": EYE, "instruction": TEXT})
ACT = ActSpec(shape=(2,), low=(-1.0, -1.0), high=(1.0, 1.0), rate_hz=10)
SMALL = {"text_width": 32, "channels": (16, 16), "heads": 2, "head_width": 8}


def policy(obs_spec: ObsSpec = OBS, **fields):
    encoder = {"name": "mini_vla", **SMALL, **fields}
    cfg = {"name": "flow", "encoder": encoder, "horizon": 3, "exec_horizon": 2}
    cfg |= {"net": {"name": "mlp", "width": 16, "depth": 1}}
    normalizer = Normalizer.identity(obs_spec, ACT)
    return component("policies").make(cfg).build(obs_spec, ACT, normalizer)


def ids(*texts: str) -> torch.Tensor:
    encoder = ByteText(ByteText.Config(max_bytes=LENGTH))
    return torch.from_numpy(encoder.encode(texts))[:, None]


def test_a_policy_with_it_conforms():
    check_policy(policy, "flow")


def test_padding_says_nothing():
    """The features of a sentence do not depend on the length of the item."""
    torch.manual_seed(0)
    tower = MiniVlaEncoder(MiniVlaEncoder.Config(**SMALL), OBS, 1).tower
    short = ids("push it")[:, 0]
    assert torch.allclose(tower(short), tower(short[:, :7]), atol=1e-6)
    assert not torch.allclose(tower(short), tower(ids("lift it")[:, 0]))


def scenes(rows: int, generator: torch.Generator):
    """Images of a red and a blue spot, a sentence that names one, and the place of that one."""
    places = torch.randint(4, SIDE - 4, (rows, 2, 2), generator=generator)
    images = torch.zeros(rows, 1, 3, SIDE, SIDE, dtype=torch.uint8)
    for channel, spot in ((0, 0), (2, 1)):
        for image, (y, x) in zip(images[:, 0], places[:, spot].tolist(), strict=True):
            image[channel, y - 3 : y + 3, x - 3 : x + 3] = 255
    which = torch.randint(2, (rows,), generator=generator)
    said = ids("touch the red spot", "touch the blue spot")[which]
    wanted = 2.0 * places[torch.arange(rows), which] / SIDE - 1.0
    return ObsFeatures(torch.zeros(rows, 2), {"eye": images}, {"instruction": said}), wanted


@pytest.mark.slow
def test_it_learns_to_find_what_the_instruction_names():
    """On scenes that were not shown, it is nearer to the named spot than chance or the other."""
    torch.manual_seed(0)
    encoder = MiniVlaEncoder(MiniVlaEncoder.Config(**SMALL), OBS, 1)
    net = nn.Sequential(nn.Linear(encoder.num_features, 2))
    optimizer = torch.optim.Adam([*encoder.parameters(), *net.parameters()], 3e-3)
    draw = torch.Generator().manual_seed(0)
    for _ in range(400):
        features, wanted = scenes(64, draw)
        loss = (net(encoder(features)) - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    features, wanted = scenes(256, draw)
    with torch.no_grad():
        error = (net(encoder(features)) - wanted).square().mean()
    assert error < 0.1 * wanted.square().mean()


def test_what_it_cannot_read_is_refused():
    with pytest.raises(SpecError, match="reads one text"):
        policy(OBS.select(["pos", "eye"], "policy.sees"))
    with pytest.raises(SpecError, match="no image"):
        policy(OBS.select(["pos", "instruction"], "policy.sees"))
    many = TEXT.model_copy(update={"high": (300.0,) * LENGTH})
    with pytest.raises(SpecError, match=r"more ids.*at least 301.*found 256"):
        policy(ObsSpec(items={**OBS.items, "instruction": many}))
    tiny = TensorSpec(shape=(3, 16, 16), dtype="uint8")
    with pytest.raises(ConfigError, match="too small"):
        policy(ObsSpec(items={**OBS.items, "eye": tiny}))


def test_an_encoder_that_reads_no_text_refuses_one():
    cfg = {"name": "flow", "encoder": "conv", "horizon": 3, "exec_horizon": 2}
    with pytest.raises(SpecError, match="reads none"):
        component("policies").make(cfg).build(OBS, ACT, Normalizer.identity(OBS, ACT))
