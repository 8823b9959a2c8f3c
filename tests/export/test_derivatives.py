"""A function that takes a derivative inside is the same when it is spelled out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from robo_rl.export.derivatives import with_explicit_derivatives

LAYERS = {
    "linear": nn.Sequential(nn.Linear(6, 5), nn.Mish(), nn.LayerNorm(5), nn.Linear(5, 6)),
    "same": nn.Conv1d(4, 4, 3, padding=1),
    "stride": nn.Conv1d(4, 8, 3, stride=2, padding=1),
    "dilated": nn.Conv1d(4, 8, 3, padding=2, dilation=2),
    "groups": nn.Conv1d(4, 8, 3, groups=2),
    "transposed": nn.ConvTranspose1d(4, 8, 4, stride=2, padding=1),
}


class Slope(nn.Module):
    """The gradient of a layer's squares by what goes in."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        found: Any = torch.func.vjp(lambda x: self.layer(x).square(), x)
        out, pull = found
        return pull(torch.ones_like(out))[0]


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("size", [6, 7])
def test_it_is_the_same_for_any_number_of_rows(name: str, size: int) -> None:
    torch.manual_seed(0)
    shape = (6,) if name == "linear" else (4, size)
    model = Slope(LAYERS[name]).eval().requires_grad_(requires_grad=False)
    traced = with_explicit_derivatives(model, (torch.randn(2, *shape),))
    for rows in (1, 2, 5):
        x = torch.randn(rows, *shape)
        torch.testing.assert_close(traced(x), model(x))


def test_nothing_of_autograd_is_left_to_export() -> None:
    model = Slope(LAYERS["stride"]).eval().requires_grad_(requires_grad=False)
    trace: Any = with_explicit_derivatives(model, (torch.randn(2, 4, 6),)).trace
    code = trace.code
    assert "convolution" in code
    assert "backward" not in code
