"""Keeps the best weights of each ensemble member, by its out-of-bag error.

Shapes: M members. Episodes outside a member's bootstrap resample estimate its error on new episodes
(out-of-bag: Breiman 1996).
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from robo_rl.core.errors import DataError
from robo_rl.core.stateful import Stateful


def out_of_bag_mask(counts: Tensor) -> Tensor:
    """Mask of episodes out of a member's resample, from the counts (M, …).

    A member that holds every episode gets a mask of ones.
    """
    unseen = (counts == 0.0).float()
    return torch.where(unseen.flatten(1).any(dim=1).view(-1, *[1] * (counts.ndim - 1)), unseen, 1.0)


class OutOfBagBest(Stateful):
    """The best weights of each member.

    Args:
        module: A module with parameters of shape (M, …).
        members: M.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("best", "best_error")

    def __init__(self, module: nn.Module, members: int) -> None:
        self.module = module
        self.best = {name: each.detach().clone() for name, each in module.named_parameters()}
        self.best_error = torch.full((members,), torch.inf)

    @torch.no_grad()
    def update(self, error: Tensor) -> None:
        """Store the weights of members with their lowest out-of-bag error (M,) up to now."""
        better = error < self.best_error
        self.best_error = torch.where(better, error, self.best_error)
        for name, each in self.module.named_parameters():
            keep = better.view(-1, *[1] * (each.ndim - 1))
            self.best[name] = torch.where(keep, each.detach(), self.best[name])

    def metrics(self) -> dict[str, float]:
        """Return the mean lowest error as ``oob_error``, once every member has one."""
        known = bool(self.best_error.isfinite().all())
        return {"oob_error": float(self.best_error.mean())} if known else {}

    @torch.no_grad()
    def restore(self, what: str) -> None:
        """Load the best weights into the module.

        Args:
            what: Name of the model in the error message.

        Raises:
            DataError: A member never had a finite error.
        """
        if not bool(self.best_error.isfinite().all()):
            found = "errors that are not finite in some member, whenever it was looked at"
            hint = "look for absurd numbers in the data, or learn more slowly (its lr)"
            raise DataError(f"{what} was not learnt", found=found, hint=hint)
        for name, each in self.module.named_parameters():
            each.copy_(self.best[name])
