"""Episodes drawn anew, again and again: how sure one is of what the data say.

Shapes: M resamples, N rows, E episodes. The bootstrap's counts of E episodes out of E, with
replacement (Efron 1979), as weights of rows. Episodes are what is independent, not their rows.
"""

from __future__ import annotations

import torch
from torch import Tensor


class Resample:
    """Which episode each row is of, and how often each resample has it.

    Args:
        last: (N,) the last row of each row's episode.
        members: M; each is one resample.
        generator: Draws them.
    """

    def __init__(self, last: Tensor, members: int, generator: torch.Generator) -> None:
        ends, self.episode = torch.unique(last, return_inverse=True)
        number = len(ends)
        drawn = torch.randint(number, (members, number), generator=generator)
        counts = torch.zeros(members, number).scatter_add_(1, drawn, torch.ones(members, number))
        self.counts = counts.to(last.device)
        self.starts = torch.cat([ends.new_zeros(1), ends[:-1] + 1])

    def weights(self, rows: Tensor) -> Tensor:
        """Of rows (B,): (M, B)."""
        return self.counts[:, self.episode[rows]]

    def mean(self, values: Tensor) -> Tensor:
        """Of values (M, E) of the episodes, each resample's: (M,)."""
        return (self.counts * values).sum(dim=1) / self.counts.sum(dim=1)
