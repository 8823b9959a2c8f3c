"""Losses of critics: histograms keep the mean of what they are given, and are learnt by it."""

from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError

from robo_rl.critic.heads import (
    HeadConfig,
    HistogramHead,
    ScalarHead,
    gaussian_bins,
    make_head,
    two_hot,
)

HISTOGRAMS = ("hl_gauss", "two_hot", "categorical")


def make(kind: str, bounds: tuple[float, float] = (0.0, 1.0), **fields: object) -> HistogramHead:
    head = make_head(HeadConfig.model_validate({"kind": kind, "bounds": bounds, **fields}))
    assert isinstance(head, HistogramHead)
    return head.double()


@pytest.mark.parametrize("kind", HISTOGRAMS)
@pytest.mark.parametrize("bins", [31, 101])
def test_a_histogram_keeps_the_mean_of_every_value_up_to_the_bounds(kind, bins):
    head = make(kind, (-10.0, 30.0), bins=bins)
    value = torch.linspace(-10.0, 30.0, 1001, dtype=torch.float64)
    spread = head.target_distribution(value)
    torch.testing.assert_close(spread.sum(-1), torch.ones_like(value))
    assert spread.min() >= 0.0
    # what HL-Gauss loses by its margin of at least 3 σ, and by its bins, is far below their width
    assert (spread @ head.centres - value).abs().max() < 2e-3 * head.width
    torch.testing.assert_close(
        head.value(spread.clamp(min=1e-30).log()[None]), (spread @ head.centres)[None]
    )


@pytest.mark.parametrize("kind", HISTOGRAMS)
def test_descending_the_cross_entropy_finds_a_known_value(kind):
    head = make(kind, bins=51)
    target = torch.tensor([0.0, 0.123, 0.5, 1.0], dtype=torch.float64)
    logits = torch.zeros(1, 4, head.outputs, dtype=torch.float64, requires_grad=True)
    optim = torch.optim.Adam([logits], lr=0.1)
    for _ in range(1000):
        optim.zero_grad()
        head.loss(logits, target).sum().backward()
        optim.step()
    torch.testing.assert_close(head.value(logits.detach())[0], target, rtol=0.0, atol=1e-3)


def test_hl_gauss_by_hand():
    """A Gaussian with σ = 1 at the middle edge of four bins of width 1: Φ(1)−Φ(0) and Φ(2)−Φ(1)."""
    edges = torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0], dtype=torch.float64)
    near, far = 0.3413447461, 0.1359051220
    inside = 2 * (near + far)
    expected = torch.tensor([far, near, near, far], dtype=torch.float64) / inside
    found = gaussian_bins(torch.tensor(0.0, dtype=torch.float64), edges, 1.0)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=0.0)


def test_two_hot_by_hand():
    found = two_hot(torch.tensor([0.0, 0.25, 1.9, 3.0]), torch.tensor([0.0, 1.0, 2.0, 3.0]))
    expected = [[1, 0, 0, 0], [0.75, 0.25, 0, 0], [0, 0.1, 0.9, 0], [0, 0, 0, 1]]
    torch.testing.assert_close(found, torch.tensor(expected))


@pytest.mark.parametrize("kind", ["mse", "huber", *HISTOGRAMS])
def test_targets_are_held_to_the_bounds_and_may_differ_by_member(kind, generator):
    head = make_head(HeadConfig(kind=kind, bounds=(0.0, 1.0)))
    out = torch.randn(3, 2, head.outputs, generator=generator)
    shared = torch.tensor([-5.0, 1.4])
    loss = head.loss(out, shared)
    assert loss.shape == (3, 2)
    assert torch.equal(loss, head.loss(out, torch.tensor([0.0, 1.0])))
    torch.testing.assert_close(loss, head.loss(out, shared.expand(3, 2)))
    one_moved = torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.5, 1.0]])
    moved = head.loss(out, one_moved) != loss
    assert moved.tolist() == [[False, False], [False, False], [True, False]]


def test_huber_is_half_the_square_up_to_delta_and_linear_beyond():
    out, target = torch.tensor([[[0.0], [0.0]]]), torch.tensor([0.5, 4.0])
    huber = ScalarHead(HeadConfig(kind="huber", huber_delta=2.0)).loss(out, target)
    torch.testing.assert_close(huber, torch.tensor([[0.125, 2.0 * (4.0 - 1.0)]]))
    square = ScalarHead(HeadConfig(kind="mse")).loss(out, target)
    torch.testing.assert_close(square, torch.tensor([[0.125, 8.0]]))


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"kind": "hl_gauss"}, "hl_gauss needs bounds"),
        ({"kind": "mse", "bounds": (1.0, 0.0)}, "must be below"),
        ({"kind": "hl_gauss", "bounds": (0.0, 1.0), "bins": 6}, "more than 6 are needed"),
    ],
)
def test_what_cannot_be_is_refused(fields, complaint):
    with pytest.raises(ValidationError, match=complaint):
        HeadConfig(**fields)


def test_a_law_is_projected_by_hand():
    """Centres 0, 1, 2, 3, bounds [0.5, 2.5]: values 0 (held to 0.5), 1, 1.75, 4 (held to 2.5)."""
    head = make("categorical", (0.5, 2.5), bins=4)
    torch.testing.assert_close(head.centres, torch.arange(4.0, dtype=torch.float64))
    values = torch.tensor([[0.0, 1.0, 1.75, 4.0]], dtype=torch.float64)
    law = torch.tensor([[0.1, 0.2, 0.4, 0.3]], dtype=torch.float64)
    # 0.1 → ½ each to 0, 1; 0.2 → 1; 0.4 → ¼ to 1, ¾ to 2; 0.3 → ½ each to 2, 3
    expected = torch.tensor([[0.05, 0.35, 0.45, 0.15]], dtype=torch.float64)
    torch.testing.assert_close(head.project(values, law), expected)
