"""Running observation statistics of a policy that is trained without demonstrations.

Shapes: N rows, To history. Random actions reach a small part of the state space. Observations far
outside of it would reach the network clipped, so the statistics follow the training data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from robo_rl.core.errors import ConfigError
from robo_rl.core.stateful import Stateful
from robo_rl.data.affine import CONSTANT
from robo_rl.data.normalize import Normalizer
from robo_rl.distributed.moments import Moments, global_count, merged

_OBS = "obs."

FRESH_ROWS = 1000.0
"""Rows that statistics count for which no training has moved yet."""


class RunningObsStats(Stateful):
    """Updates a normaliser's means and standard deviations in place, for all its users.

    The initial statistics count as a number of rows, and new rows are merged with them. That number
    is saved with the normaliser, so that a later stage goes on from it. Update
    between two rollouts, so that samples are scored under the statistics they were drawn with. The
    weights of reused rollouts include the change of the statistics. Checkpoints hold the moments;
    the normaliser's values are saved with the policy.

    Args:
        normalizer: Its ``standard`` observations are updated. Observations of another mode and
            actions are unchanged.
        weight: Number of rows that the initial statistics count for; None for those that earlier
            training moved them by, or ``FRESH_ROWS`` for statistics that did not move.

    Raises:
        ConfigError: It has no ``standard`` observations.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("count", "mean", "sq_dev")

    def __init__(self, normalizer: Normalizer, weight: float | None = None) -> None:
        modes = normalizer.modes.items()
        keys = [key for key, mode in modes if key.startswith(_OBS) and mode == "standard"]
        if not keys:
            raise ConfigError(
                "no observation statistics that could move",
                expected="observations of mode 'standard', as stage 'scratch' makes them",
                found=normalizer.modes,
                hint="a cloned policy keeps the numbers of its demonstrations",
            )
        weight = weight or normalizer.running_rows or FRESH_ROWS
        self.normalizer, self.count = normalizer, weight
        self.mean = {key: normalizer.affine(key).shift.double() for key in keys}
        scales = {key: normalizer.affine(key).scale.double() for key in keys}
        self.sq_dev = {key: weight * scale.square() for key, scale in scales.items()}

    def update(self, obs: Mapping[str, Tensor]) -> None:
        """Merge the newest frame of observations, name → (N, To, …), into the statistics."""
        new = global_count(len(next(iter(obs.values()))))
        if not new:
            return
        for key in self.mean:
            seen = (self.count, self.mean[key], self.sq_dev[key])
            found = Moments.of(obs[key.removeprefix(_OBS)][:, -1].double())
            _, self.mean[key], self.sq_dev[key] = merged(seen, found)
        self.count += new
        self._renew()

    def _renew(self) -> None:
        for key, mean in self.mean.items():
            std = (self.sq_dev[key] / self.count).sqrt()
            varies = std > CONSTANT * mean.abs().clamp(min=1.0)
            self.normalizer.set_affine(key, mean, torch.where(varies, std, 1.0))
        self.normalizer.running_rows = self.count

    def _loaded(self) -> None:
        device = self.normalizer.device
        self.mean = {key: value.to(device) for key, value in self.mean.items()}
        self.sq_dev = {key: value.to(device) for key, value in self.sq_dev.items()}
        self.normalizer.running_rows = self.count
