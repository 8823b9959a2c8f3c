"""A remote world's own demonstrator, with noise in its actions.

Shapes: B envs, A act_dim.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from robo_rl.core.spec import ActSpec


class RemoteExpert:
    """Asks the worlds what to do; an ``Expert``.

    Gaussian noise is added to each element of the action and the sum limited as the env would.

    Args:
        demonstrate: Gives the demonstrated actions (B, A) of B envs where they stand.
        act_spec: Of those actions.
        generator: Source of the noise.
        noise: Standard deviation of the noise, in halves of an element's range; in units of the
            action where that has no limits.
    """

    def __init__(
        self,
        demonstrate: Callable[[], Tensor],
        act_spec: ActSpec,
        generator: torch.Generator,
        noise: float,
    ) -> None:
        self._demonstrate, self._generator, self._noise = demonstrate, generator, noise
        spec = self._spec = act_spec
        low, high = spec.low or (-1.0,) * spec.size, spec.high or (1.0,) * spec.size
        self._low, self._high = torch.tensor(low), torch.tensor(high)

    def reset(self, ids: Tensor) -> None:
        """Nothing to tell: the worlds know which of their envs begin anew."""

    def act(self, view: Any) -> Tensor:
        """The demonstrated action (B, A) where the envs stand now."""
        del view  # they know it better
        act = self._demonstrate()
        scale = self._noise * (self._high - self._low) / 2.0
        act = act + scale * torch.randn(act.shape, generator=self._generator)
        return act.clamp(self._low, self._high) if self._spec.low else act
