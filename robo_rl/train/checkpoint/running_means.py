"""Running means of the metrics of gradient steps, with few reads from a GPU."""

from __future__ import annotations

import math
from collections.abc import Mapping

from torch import Tensor

from robo_rl.optim.scalars import numbers
from robo_rl.train.checkpoint.progress import running_mean


class RunningMeans:
    """``running_mean`` of metrics by name; tensors are read from a GPU with the means.

    Args:
        means: Means to continue.
    """

    def __init__(self, means: Mapping[str, float] | None = None) -> None:
        self._means, self._new = dict(means or {}), list[tuple[str, float | Tensor]]()

    def add(self, metrics: Mapping[str, float | Tensor]) -> None:
        """Add one value of each metric; tensors are scalars."""
        self._new += metrics.items()

    def read(self) -> dict[str, float]:
        """Return the means over all values."""
        new, self._new = self._new, []
        transferred = iter(numbers([value for _, value in new if isinstance(value, Tensor)]))
        for name, value in new:
            number = next(transferred) if isinstance(value, Tensor) else value
            self._means[name] = running_mean(self._means.get(name, math.nan), number)
        return dict(self._means)
