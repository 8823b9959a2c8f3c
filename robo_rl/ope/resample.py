"""Bootstrap resamples of episodes, as weights of rows.

Shapes: M resamples, N rows, E episodes. Each resample draws E episodes of E with replacement (Efron
1979). Episodes are independent; their rows are not.
"""

from __future__ import annotations

import torch
from torch import Tensor


class Resample:
    """The episode of each row, and its count in each resample.

    Args:
        last: (N,) the last row of each row's episode.
        members: M, number of resamples.
        generator: Draws the resamples.
    """

    def __init__(self, last: Tensor, members: int, generator: torch.Generator) -> None:
        ends, self.episode = torch.unique(last, return_inverse=True)
        number = len(ends)
        drawn = torch.randint(number, (members, number), generator=generator)
        counts = torch.zeros(members, number).scatter_add_(1, drawn, torch.ones(members, number))
        self.counts = counts.to(last.device)
        self.starts = torch.cat([ends.new_zeros(1), ends[:-1] + 1])

    def weights(self, rows: Tensor) -> Tensor:
        """Return weights (M, B) of rows (B,)."""
        return self.counts[:, self.episode[rows]]

    def mean(self, values: Tensor) -> Tensor:
        """Return each resample's mean (M,) of episode values (M, E)."""
        return (self.counts * values).sum(dim=1) / self.counts.sum(dim=1)
