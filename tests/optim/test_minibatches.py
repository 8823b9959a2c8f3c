"""A pass has every row once, and each part of a run its share of every minibatch."""

from __future__ import annotations

import pytest
import torch

from robo_rl.optim.minibatches import PADDING_SHARD, Minibatches


def stream() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize(("size", "limit"), [(10, 4), (12, 4), (3, 100), (1, 1), (1001, 256)])
def test_a_pass_has_every_row_once_in_parts_of_nearly_one_size(size, limit):
    batches = Minibatches(size, limit, stream())
    parts = [pick for pick, _ in batches]
    assert sorted(torch.cat(parts).tolist()) == list(range(size))
    lengths = [len(part) for part in parts]
    assert len(parts) == batches.per_epoch
    assert max(lengths) <= limit
    assert max(lengths) - min(lengths) <= 1
    assert [share for _, share in batches] == [1.0] * len(parts)


def test_passes_are_in_different_orders():
    batches = Minibatches(100, 100, stream())
    assert not torch.equal(next(iter(batches)).indices, next(iter(batches)).indices)


def test_every_part_gives_its_share_to_every_minibatch():
    shard = torch.tensor([0, 1, 1, 0, 1, 0, 1, 1, 1] * 10)
    picks = [pick for pick, _ in Minibatches(90, 9, stream(), shard)]
    assert sorted(torch.cat(picks).tolist()) == list(range(90))
    assert {int((shard[pick] == 0).sum()) for pick in picks} == {3}


def test_rows_that_count_for_nothing_are_in_no_minibatch():
    shard = torch.tensor([0, PADDING_SHARD, 0, 0])
    batches = list(Minibatches(4, 2, stream(), shard))
    assert sorted(torch.cat([pick for pick, _ in batches]).tolist()) == [0, 2, 3]


def test_fewer_rows_a_minibatch_than_parts_leave_none_empty():
    shard = torch.arange(12) % 4
    batches = list(Minibatches(12, 1, stream(), shard))
    assert sorted(torch.cat([pick for pick, _ in batches]).tolist()) == list(range(12))
    assert {share for _, share in batches} == {1.0}


def test_the_order_of_a_part_is_its_own_whoever_has_the_others():
    """Two processes with one part each, or one with both: the same rows in every minibatch."""
    rows = [torch.arange(0, 40, 2), torch.arange(1, 40, 2)]
    both = torch.arange(40) % 2
    together = [set(pick.tolist()) for pick, _ in Minibatches(40, 8, stream(), both)]
    apart = [
        [mine[pick].tolist() for pick, _ in Minibatches(20, 4, stream(), torch.full((20,), part))]
        for part, mine in enumerate(rows)
    ]
    assert together == [{*one, *other} for one, other in zip(*apart, strict=True)]
