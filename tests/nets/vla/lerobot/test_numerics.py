"""The networks of SmolVLA, π0 and π0.5 give LeRobot's numbers on LeRobot's weights."""

from __future__ import annotations

import pytest
import torch
from small_vla import KINDS, assert_near, euler, tiny_vla

from robo_rl.nets.vla.layers import KeyValue


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_losses_and_chunks_are_those_of_lerobot(kind: str):
    vla = tiny_vla(kind)
    prefix, (x, target) = vla.prefix(), vla.noisy
    errors = (target - vla.velocity(x, vla.case["time"], prefix)).square()
    assert_near(errors, vla.case["squared_errors"])
    assert_near(euler(vla, prefix), vla.case["chunk"])


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_padding_and_other_rows_change_nothing(kind: str):
    """A row alone, without the padding that longer instructions give it, has the same velocity."""
    vla = tiny_vla(kind)
    x, t = vla.noisy[0], vla.case["time"]
    together = vla.velocity(x, t, vla.prefix())
    row = slice(2, 3)
    real = int(vla.case["obs.language.attention_mask"][2].sum())
    assert real < vla.case["obs.language.tokens"].shape[1]
    for name in ("obs.language.tokens", "obs.language.attention_mask"):
        vla.case[name] = vla.case[name][:, :real]
    alone = vla.velocity(x[row], t[row], vla.prefix(row))
    torch.testing.assert_close(alone, together[row], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_reach_what_sees_through_the_cache(kind: str):
    """All trained parts have a gradient, and a cache without one leaves the expert's alone."""
    vla = tiny_vla(kind)
    prefix, (x, _) = vla.prefix(), vla.noisy
    vla.velocity(x, vla.case["time"], prefix).square().mean().backward()
    patches = next(p for n, p in vla.networks.prefix.named_parameters() if "patch_embedding" in n)
    assert patches.grad is not None
    assert float(patches.grad.abs().max()) > 0.0
    expert = vla.networks.expert.action_in_proj.weight
    assert expert.grad is not None
    with_prefix = expert.grad.clone()
    vla.networks.zero_grad()
    cut = tuple(KeyValue(*(part.detach() for part in each)) for each in prefix.cache)
    held = prefix._replace(cache=cut, state=prefix.state.detach())
    vla.velocity(x, vla.case["time"], held).square().mean().backward()
    assert patches.grad is None
    torch.testing.assert_close(expert.grad, with_prefix)
