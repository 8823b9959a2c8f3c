"""The temporal U-Net: any horizon, and what its output depends on."""

from __future__ import annotations

import pytest
import torch
from small_nets import ACT_DIM, FEATURES, check_conditions, check_shapes, inputs, predict

from robo_rl.nets.unet1d import Unet1d


def make(horizon: int, channels: tuple[int, ...] = (8, 16)) -> Unet1d:
    torch.manual_seed(0)
    cfg = Unet1d.Config(channels=channels, groups=4, kernel_size=3)
    return Unet1d(cfg, horizon, ACT_DIM, FEATURES)


@pytest.mark.parametrize("channels", [(8,), (8, 16), (8, 16, 32)])
@pytest.mark.parametrize("horizon", [1, 2, 3, 5, 7, 8, 16])
def test_keeps_the_shape_of_the_chunk_for_any_horizon(horizon, channels):
    check_shapes(make(horizon, channels), horizon)


@pytest.mark.parametrize("horizon", [5, 8])
def test_depends_on_chunk_time_and_observation_of_its_own_row(horizon):
    check_conditions(make(horizon), horizon)


def test_what_pads_an_odd_horizon_is_cut_again():
    """A chunk of 7 gives what the same chunk followed by one zero gives, without its last."""
    net, (x, t, features) = make(7), inputs(7)
    padded = torch.cat([x, torch.zeros(len(x), 1, ACT_DIM)], dim=1)
    torch.testing.assert_close(
        predict(net, x, t, features), predict(net, padded, t, features)[:, :7]
    )


def test_the_whole_chunk_is_seen_from_both_of_its_ends():
    net, (x, t, features) = make(8, (8, 16, 32)), inputs(8)
    out = predict(net, x, t, features)
    for end, other in ((0, 7), (7, 0)):
        changed = x.clone()
        changed[:, end] += 1.0
        assert (predict(net, changed, t, features) - out)[:, other].abs().max() > 1e-5
