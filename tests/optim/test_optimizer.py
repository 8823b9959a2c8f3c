"""Steps: none after a bad gradient, none beyond the norm."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from robo_rl.core.errors import PluginError
from robo_rl.optim.optimizer import MAX_SKIPPED_IN_A_ROW, ClippedOptimizer


def test_a_gradient_that_is_not_finite_moves_nothing_and_too_many_end_the_run():
    weight = nn.Parameter(torch.ones(3))
    optimizer = ClippedOptimizer([weight], lr=0.1, grad_clip=1.0)
    optimizer.step((weight * torch.nan).sum())
    assert weight.tolist() == [1.0, 1.0, 1.0]
    assert optimizer.skipped == 1
    optimizer.step(weight.sum())
    assert float(weight.detach().max()) < 1.0
    for _ in range(MAX_SKIPPED_IN_A_ROW - 1):
        optimizer.step((weight * torch.nan).sum())
    with pytest.raises(PluginError, match=f"{MAX_SKIPPED_IN_A_ROW} times in a row"):
        optimizer.step((weight * torch.nan).sum())


def test_the_count_of_skipped_steps_is_resumed_and_no_rollback_lowers_it():
    def made() -> tuple[nn.Parameter, ClippedOptimizer]:
        weight = nn.Parameter(torch.ones(3))
        return weight, ClippedOptimizer([weight], lr=0.1, grad_clip=1.0)

    weight, optimizer = made()
    good = copy.deepcopy(optimizer.state_dict())
    optimizer.step((weight * torch.nan).sum())
    saved = copy.deepcopy(optimizer.state_dict())
    optimizer.load_state_dict(good)
    assert optimizer.skipped == 1
    again = made()[1]
    again.load_state_dict(saved)
    assert (again.skipped, int(again.counters["in_a_row"])) == (1, 1)
    older = made()[1]
    older.load_state_dict({"optim": saved["optim"]})  # of a checkpoint without counters
    assert older.skipped == 0


def test_gradients_are_clipped_by_their_norm_alone():
    """AdamW's first step is lr wherever there is a gradient; the clip leaves its direction."""
    weight = nn.Parameter(torch.zeros(2))
    optimizer = ClippedOptimizer([weight], lr=0.1, grad_clip=1.0)
    optimizer.step((weight * torch.tensor([300.0, 400.0])).sum())
    assert weight.grad is not None
    torch.testing.assert_close(weight.grad, torch.tensor([0.6, 0.8]))
