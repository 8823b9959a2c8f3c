"""What any network over action chunks must do, whatever is inside."""

from __future__ import annotations

import torch
from torch import Tensor

ROWS, ACT_DIM, FEATURES = 5, 3, 4


def predict(net, x: Tensor, t: Tensor, features: Tensor) -> Tensor:
    with torch.no_grad():
        return net(x, t, net.embed(features))


def inputs(horizon: int) -> tuple[Tensor, Tensor, Tensor]:
    """x (B, H, A), t (B,), features (B, O)."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, horizon, ACT_DIM, generator=generator)
    return (
        x,
        torch.rand(ROWS, generator=generator),
        torch.randn(ROWS, FEATURES, generator=generator),
    )


def check_shapes(net, horizon: int) -> None:
    x, t, features = inputs(horizon)
    assert net.embed(features).shape == (ROWS, net.embed_dim)
    out = predict(net, x, t, features)
    assert out.shape == x.shape
    assert out.isfinite().all()


def check_conditions(net, horizon: int) -> None:
    """Chunk, time and observation each matter, and to their own row alone."""
    given = inputs(horizon)
    out = predict(net, *given)
    for place in range(3):
        changed = [each.clone() for each in given]
        changed[place][2] += 0.3
        moved = (predict(net, *changed) - out).abs().flatten(1).max(dim=1).values
        assert moved[2] > 1e-3
        assert moved[[0, 1, 3, 4]].max() < 1e-6
