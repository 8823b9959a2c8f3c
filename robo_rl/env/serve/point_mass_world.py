"""A point mass that is pushed over a plane to a target: a world for testing a connection.

Shapes: B envs. ``state`` (B, 6) has position (m), velocity (m/s) and target (m), each with two
axes; actions (B, 2) are accelerations in m/s².
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

_DT_S = 0.05
_NEAR_M = 0.05
_NAMES = [f"{part}_{axis}" for part in ("pos", "vel", "mark") for axis in "xy"]


def make_all(num_envs: int, max_episode_steps: int = 100) -> PointMass:
    """Return B point masses."""
    return PointMass(num_envs, max_episode_steps)


class PointMass:
    """The point masses; each env draws its targets from its own random stream."""

    def __init__(self, num_envs: int, max_episode_steps: int) -> None:
        self.world: dict[str, Any] = {
            "obs": {"state": {"shape": [6], "dtype": "float32", "names": _NAMES}},
            "act": {"shape": [2], "low": [-1.0] * 2, "high": [1.0] * 2, "unit": "m/s^2"},
            "dt_s": _DT_S,
            "max_episode_steps": max_episode_steps,
            "metrics": ["success"],
            "demonstrates": True,
        }
        self._state = np.zeros((num_envs, 6), np.float32)
        self._steps = np.zeros(num_envs, np.int64)
        self._rngs = [np.random.default_rng(i) for i in range(num_envs)]

    def reset(self, seeds: Sequence[int] | None) -> dict[str, Any]:
        """Put every point at rest at the origin, and draw its target."""
        if seeds is not None:
            self._rngs = [np.random.default_rng(seed) for seed in seeds]
        return self.restart(np.arange(len(self._rngs)))

    def restart(self, ids: Any) -> dict[str, Any]:
        """Put the points ids (n,) at rest at the origin, and draw their targets."""
        self._state[ids], self._steps[ids] = 0.0, 0
        for i in ids:
            self._state[i, 4:] = self._rngs[i].uniform(-1.0, 1.0, 2)
        return {"state": self._state.copy()}

    def step(self, act: Any) -> dict[str, Any]:
        """Apply the accelerations for one period."""
        self._state[:, 2:4] += _DT_S * act
        self._state[:, :2] += _DT_S * self._state[:, 2:4]
        self._steps += 1
        gap = np.linalg.norm(self._state[:, :2] - self._state[:, 4:], axis=1)
        near = gap < _NEAR_M
        truncated = ~near & (self._steps >= self.world["max_episode_steps"])
        next_obs = {"state": self._state.copy()}
        over = np.flatnonzero(near | truncated)
        return {
            "obs": self.restart(over) if len(over) else next_obs,
            "next_obs": next_obs,
            "rew": -gap,
            "terminated": near,
            "truncated": truncated,
            "metrics": {"success": near.astype(np.float32)},
        }

    def demonstrate(self) -> Any:
        """Return the accelerations of a critically damped controller towards the target."""
        pos, vel, mark = np.split(self._state, 3, axis=1)
        return np.clip(4.0 * (mark - pos) - 4.0 * vel, -1.0, 1.0)
