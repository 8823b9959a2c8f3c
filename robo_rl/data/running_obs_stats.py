"""Observation statistics of a policy that learns from scratch: they move with what it comes to see.

Shapes: N rows, To history. Where there are no demonstrations to take them from, random actions show
a small part of the world, and what is far outside of it would reach networks clipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from robo_rl.core.errors import ConfigError
from robo_rl.data.normalize import CONSTANT, Normalizer
from robo_rl.distributed.moments import Moments, global_count

_OBS = "obs."


class RunningObsStats:
    """Renews a normaliser's means and deviations, for all that share it.

    The present numbers count as so many rows; what is added is merged with them (Chan, Golub &
    LeVeque 1983, eq. 2.1). Renew between a block and the next, so that what was drawn under some
    numbers is scored under them.

    Args:
        normalizer: Its ``standard`` observations are renewed; those of another mode, and actions,
            stay as they are.
        weight: Rows that its present numbers count for.

    Raises:
        ConfigError: It has no ``standard`` observations.
    """

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
        total = self.count + new
        for key in self.mean:
            _, mean, spread = Moments.of(obs[key.removeprefix(_OBS)][:, -1].double())
            gap = mean - self.mean[key]
            self.sq_dev[key] = self.sq_dev[key] + spread + gap**2 * self.count * new / total
            self.mean[key] = self.mean[key] + gap * new / total
        self.count = total
        self._renew()

    def _renew(self) -> None:
        for key, mean in self.mean.items():
            std = (self.sq_dev[key] / self.count).sqrt()
            varies = std > CONSTANT * mean.abs().clamp(min=1.0)
            self.normalizer.set_affine(key, mean, torch.where(varies, std, 1.0))

    def state_dict(self) -> dict[str, Any]:
        """For checkpoints; the normaliser's numbers are kept with the policy."""
        return {"count": self.count, "mean": dict(self.mean), "sq_dev": dict(self.sq_dev)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """From a checkpoint."""
        self.count = state["count"]
        place = self.normalizer.device
        self.mean, self.sq_dev = (
            {key: value.to(place) for key, value in state[name].items()}
            for name in ("mean", "sq_dev")
        )
