"""Observation statistics of a policy that learns from scratch: they move with what it comes to see.

Shapes: N rows, To history. Where there are no demonstrations to take them from, random actions show
a small part of the world, and what is far outside of it would reach networks clipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from robo_rl.core.errors import ConfigError
from robo_rl.core.stateful import Stateful
from robo_rl.data.normalize import CONSTANT, Normalizer
from robo_rl.distributed.moments import Moments, global_count, merged

_OBS = "obs."


class RunningObsStats(Stateful):
    """Renews a normaliser's means and deviations, for all that share it.

    The present numbers count as so many rows; what is added is merged with them. Renew between a
    block and the next, so that what was drawn under some numbers is scored under them. Checkpoints
    hold the moments; the normaliser's numbers are kept with the policy.

    Args:
        normalizer: Its ``standard`` observations are renewed; those of another mode, and actions,
            stay as they are.
        weight: Rows that its present numbers count for.

    Raises:
        ConfigError: It has no ``standard`` observations.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("count", "mean", "sq_dev")

    def __init__(self, normalizer: Normalizer, weight: float = 1000.0) -> None:
        modes = normalizer.modes.items()
        keys = [key for key, mode in modes if key.startswith(_OBS) and mode == "standard"]
        if not keys:
            raise ConfigError(
                "no observation statistics that could move",
                expected="observations of mode 'standard', as stage 'scratch' makes them",
                found=normalizer.modes,
                hint="a cloned policy keeps the numbers of its demonstrations",
            )
        self.normalizer, self.count = normalizer, weight
        self.mean = {key: normalizer.affine(key).shift.double() for key in keys}
        scales = {key: normalizer.affine(key).scale.double() for key in keys}
        self.sq_dev = {key: weight * scale.square() for key, scale in scales.items()}

    def update(self, obs: Mapping[str, Tensor]) -> None:
        """Take in what was acted on, name → (N, To, …); the newest frame counts."""
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

    def _loaded(self) -> None:
        device = self.normalizer.device
        self.mean = {key: value.to(device) for key, value in self.mean.items()}
        self.sq_dev = {key: value.to(device) for key, value in self.sq_dev.items()}
