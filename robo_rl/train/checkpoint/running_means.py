"""Running means of the figures of gradient steps, which a GPU is asked for seldom."""

from __future__ import annotations

import math
from collections.abc import Mapping

from torch import Tensor

from robo_rl.optim.scalars import numbers
from robo_rl.train.checkpoint.progress import running_mean


class RunningMeans:
    """``running_mean`` of figures by name; those on a GPU are read when the means are.

    Args:
        means: To go on from.
    """

    def __init__(self, means: Mapping[str, float] | None = None) -> None:
        self._means, self._new = dict(means or {}), list[tuple[str, float | Tensor]]()

    def add(self, figures: Mapping[str, float | Tensor]) -> None:
        """Take in one more value of each; tensors are scalars."""
        self._new += figures.items()

    def read(self) -> dict[str, float]:
        """The means over all values."""
        new, self._new = self._new, []
        transferred = iter(numbers([value for _, value in new if isinstance(value, Tensor)]))
        for name, value in new:
            number = next(transferred) if isinstance(value, Tensor) else value
            self._means[name] = running_mean(self._means.get(name, math.nan), number)
        return dict(self._means)
