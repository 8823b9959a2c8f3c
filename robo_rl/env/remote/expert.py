"""The demonstrator of a remote world, with noise in its actions.

Shapes: B envs, A act_dim.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from robo_rl.api.task import Demonstration

if TYPE_CHECKING:
    from torch import Tensor

    from robo_rl.core.spec import ActSpec


class RemoteExpert:
    """Requests actions from the worlds' demonstrators; an ``Expert``.

    Gaussian noise is added to each element of the action, and the sum is clipped to the limits.

    Args:
        demonstrate: Returns the demonstrated actions (B, A) for the current states.
        act_spec: Spec of the actions.
        generator: Source of the noise.
        noise: Standard deviation of the noise, relative to half of an element's range; in units
            of the action for an element without limits.
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
        """Do nothing; the worlds reset their demonstrators with their envs."""

    def act(self, view: Any) -> Demonstration:
        """Return the demonstrated action (B, A) for the current states.

        The label is the worlds' own action, before the noise.
        """
        del view  # the worlds hold the state
        label = self._demonstrate()
        scale = self._noise * (self._high - self._low) / 2.0
        act = label + scale * torch.randn(label.shape, generator=self._generator)
        return Demonstration(self._limited(act), self._limited(label))

    def _limited(self, act: Tensor) -> Tensor:
        return act.clamp(self._low, self._high) if self._spec.low else act
