"""The MLP over chunks: shapes, and what its output depends on."""

from __future__ import annotations

import pytest
import torch
from small_nets import ACT_DIM, FEATURES, check_conditions, check_shapes, inputs, predict

from robo_rl.nets.base import FourierFeatures, TimeEmbedding, dense
from robo_rl.nets.mlp import ChunkMlp


def make(horizon: int, **fields: int) -> ChunkMlp:
    torch.manual_seed(0)
    return ChunkMlp(ChunkMlp.Config(width=32, **fields), horizon, ACT_DIM, FEATURES)


@pytest.mark.parametrize("horizon", [1, 7, 8])
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_keeps_the_shape_of_the_chunk(horizon, depth):
    check_shapes(make(horizon, depth=depth), horizon)


def test_depends_on_chunk_time_and_observation_of_its_own_row():
    check_conditions(make(6), 6)


def test_every_action_may_depend_on_every_other():
    net, (x, t, features) = make(6), inputs(6)
    out = predict(net, x, t, features)
    x[:, 0] += 1.0
    assert (predict(net, x, t, features) - out).abs().amax(dim=(0, 2)).min() > 1e-4


def test_time_features_tell_times_apart():
    t = torch.linspace(0, 1, 101)
    features = TimeEmbedding(32)(t)
    assert features.shape == (101, 32)
    assert torch.pdist(features).min() > 1e-3
    torch.testing.assert_close(features.square().sum(dim=1), torch.full((101,), 16.0))


def test_dense_layers_have_no_activation_behind_the_last():
    net = dense([2, 3, 4], torch.nn.Tanh)
    assert [type(layer).__name__ for layer in net] == ["Linear", "Tanh", "Linear"]
    assert net(torch.zeros(5, 2)).shape == (5, 4)


def test_fourier_features_tell_near_observations_apart():
    near = torch.tensor([[0.5, -0.2], [0.51, -0.2]])
    plain, waves = FourierFeatures(0), FourierFeatures(6)
    assert torch.equal(plain(near), near)
    assert waves(near).shape == (2, waves.size(2)) == (2, 26)
    assert torch.equal(waves(near)[:, :2], near)
    # the highest frequency is 16π: a step of 0.01 is half a radian
    assert torch.pdist(waves(near)).item() > 30 * torch.pdist(near).item()


def test_a_network_with_fourier_features_keeps_its_interface():
    check_shapes(make(6, obs_frequencies=4), 6)
