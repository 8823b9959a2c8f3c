"""The ensemble is M separate MLPs, whatever way it is evaluated."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from robo_rl.nets.ensemble import EnsembleLinear, EnsembleNorm, MlpEnsemble

M, B, SIZES = 5, 7, [6, 16, 12, 3]


def make(layer_norm: bool, activation: type[nn.Module] = nn.SiLU) -> MlpEnsemble:
    torch.manual_seed(0)
    net = MlpEnsemble(M, SIZES, layer_norm=layer_norm, activation=activation).double()
    for layer in net.layers:
        if isinstance(layer, EnsembleNorm):  # as if trained
            nn.init.normal_(layer.weight)
            nn.init.normal_(layer.bias)
    return net


def separate(net: MlpEnsemble) -> list[nn.Sequential]:
    """The members as plain modules with the same weights."""
    return [nn.Sequential(*(single(layer, m) for layer in net.layers)) for m in range(M)]


def single(layer: nn.Module, m: int) -> nn.Module:
    if isinstance(layer, EnsembleLinear):
        plain = nn.Linear(layer.weight.shape[1], layer.weight.shape[2]).double()
        weight = layer.weight[m].T
    elif isinstance(layer, EnsembleNorm):
        plain = nn.LayerNorm(layer.weight.shape[-1]).double()
        weight = layer.weight[m, 0]
    else:
        return type(layer)()
    plain.load_state_dict({"weight": weight, "bias": layer.bias[m, 0]})
    return plain


def gradient(parameter: Any) -> torch.Tensor:
    return parameter.grad


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("activation", [nn.SiLU, nn.ReLU])
@pytest.mark.parametrize("shared", [True, False])
def test_it_equals_separate_mlps_in_values_and_gradients(layer_norm, activation, shared, generator):
    net = make(layer_norm, activation)
    plain = separate(net)
    x = torch.randn(*(B,) if shared else (M, B), SIZES[0], generator=generator).double()
    weight = torch.randn(M, B, SIZES[-1], generator=generator).double()
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    out = net(ours)
    expected = torch.stack([p(theirs if shared else theirs[m]) for m, p in enumerate(plain)])
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)
    (out * weight).sum().backward()
    (expected * weight).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-10, atol=1e-12)
    for position, layer in enumerate(net.layers):
        if isinstance(layer, EnsembleLinear):
            grads = torch.stack([gradient(p[position].weight).T for p in plain])
            torch.testing.assert_close(gradient(layer.weight), grads, rtol=1e-10, atol=1e-12)


def test_a_member_learns_from_its_own_loss_alone(generator):
    net = make(layer_norm=True)
    net(torch.randn(B, SIZES[0], generator=generator).double())[2].sum().backward()
    for parameter in net.parameters():
        others = [m for m in range(M) if m != 2]
        assert gradient(parameter)[2].abs().max() > 0
        assert gradient(parameter)[others].abs().max() == 0


def test_members_begin_apart_and_as_linear_layers_do():
    torch.manual_seed(0)
    layer = EnsembleLinear(4, 100, 300)
    torch.manual_seed(0)
    plain = [nn.Linear(100, 300) for _ in range(4)]
    assert torch.equal(layer.weight, torch.stack([p.weight.T for p in plain]))
    assert torch.equal(layer.bias[:, 0], torch.stack([p.bias for p in plain]))
    assert layer.weight.is_contiguous()
    assert torch.pdist(layer.weight.flatten(1)).min() > 1.0


def test_as_many_tensors_as_one_mlp_has():
    assert len(list(make(layer_norm=True).parameters())) == 3 * 2 + 2 * 2
