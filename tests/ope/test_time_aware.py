"""What episodes came to, worked by hand."""

from __future__ import annotations

import torch

from robo_rl.ope.time_aware import returns_to_go


def test_returns_from_every_row_of_episodes_of_several_lengths():
    rew = torch.tensor([1.0, 2.0, 4.0, 3.0, 0.0, 8.0])
    last = torch.tensor([2, 2, 2, 3, 5, 5])
    found = returns_to_go(rew, last, 0.5)
    assert found.tolist() == [1.0 + 1.0 + 1.0, 2.0 + 2.0, 4.0, 3.0, 4.0, 8.0]
