"""Members of an ensemble, each kept as it was when it was best on episodes that it never saw.

Shapes: M members. What a resample of the episodes leaves out tells its member's error on new ones
(out-of-bag: Breiman 1996).
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from robo_rl.core.errors import DataError
from robo_rl.core.stateful import Stateful


def out_of_bag_mask(counts: Tensor) -> Tensor:
    """1 where a member never saw an episode, by how often it has it (M, …); all, if it saw all."""
    unseen = (counts == 0.0).float()
    return torch.where(unseen.flatten(1).any(dim=1).view(-1, *[1] * (counts.ndim - 1)), unseen, 1.0)


class OutOfBagBest(Stateful):
    """The best weights so far.

    Args:
        module: All its parameters are (M, …).
        members: M.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("best", "best_error")

    def __init__(self, module: nn.Module, members: int) -> None:
        self.module = module
        self.best = {name: each.detach().clone() for name, each in module.named_parameters()}
        self.best_error = torch.full((members,), torch.inf)

    @torch.no_grad()
    def update(self, error: Tensor) -> None:
        """Keep the members whose error (M,) on what they never saw is the least so far."""
        better = error < self.best_error
        self.best_error = torch.where(better, error, self.best_error)
        for name, each in self.module.named_parameters():
            keep = better.view(-1, *[1] * (each.ndim - 1))
            self.best[name] = torch.where(keep, each.detach(), self.best[name])

    def metrics(self) -> dict[str, float]:
        """The mean of their least errors as ``unseen``, once all have one."""
        known = bool(self.best_error.isfinite().all())
        return {"oob_error": float(self.best_error.mean())} if known else {}

    @torch.no_grad()
    def restore(self, what: str) -> None:
        """Put the best weights in place.

        Args:
            what: Was learnt, as an error names it.

        Raises:
            DataError: A member was never of any use.
        """
        if not bool(self.best_error.isfinite().all()):
            found = "errors that are not finite in some member, whenever it was looked at"
            hint = "look for absurd numbers in the data, or learn more slowly (its lr)"
            raise DataError(f"{what} was not learnt", found=found, hint=hint)
        for name, each in self.module.named_parameters():
            each.copy_(self.best[name])
