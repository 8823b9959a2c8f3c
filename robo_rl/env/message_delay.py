"""Delayed messages between a policy and a robot: the age of the newest received message.

Shapes: B envs, D remembered steps, the latest first. Times are seconds, ages control steps. The
three parameters are those of the simulated robot's delay: latency, jitter, loss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from pydantic import Field, model_validator
from torch import Tensor

from robo_rl.config.models import ConfigModel
from robo_rl.core.seeding import make_generator

_HELD = 3  # steps that losses may add to an age: a robot holds after this long without a message


class MessageDelay:
    """The age of the newest received message, per env.

    Only the newest message counts, so an age grows by at most one per step, and falls when a
    newer message arrives.

    Args:
        cfg: See Config.
        num_envs: B.
        dt_s: Control step.
        device: Device of the ages.
        purpose: Purpose of its random stream.
    """

    class Config(ConfigModel):
        """The delay of one direction.

        Args:
            latency_s: Range of an episode's minimum delay, drawn uniformly.
            jitter_s: Upper limit of a uniform draw that is added to the delay of each message.
            loss: Fraction of messages that never arrive.
        """

        latency_s: tuple[float, float] = (0.0, 0.0)
        jitter_s: float = Field(default=0.0, ge=0.0)
        loss: float = Field(default=0.0, ge=0.0, lt=1.0)

        @model_validator(mode="after")
        def _range_rises(self) -> MessageDelay.Config:
            low, high = self.latency_s
            if not 0.0 <= low <= high < math.inf:
                raise ValueError(f"latency_s {self.latency_s}: expected 0 ≤ low ≤ high")
            return self

    def __init__(
        self, cfg: Config, num_envs: int, dt_s: float, device: torch.device, purpose: str
    ) -> None:
        self.cfg, self.dt_s, self.purpose = cfg, dt_s, purpose
        self._generator = make_generator(purpose, 0)
        self.longest = (cfg.latency_s[1] + cfg.jitter_s) / dt_s + (_HELD if cfg.loss else 0)
        self.latency = torch.zeros(num_envs, device=device)
        self.age = torch.zeros(num_envs, device=device)

    @property
    def depth(self) -> int:
        """Return D, the number of steps to remember for the largest age."""
        return math.ceil(self.longest - 1e-6) + 1

    def seed(self, seed: int) -> None:
        """Seed the random stream."""
        self._generator = make_generator(self.purpose, seed)

    def restart(self, rows: Tensor, copies: int = 1) -> None:
        """Begin episodes in the envs rows (n,); draw one latency for each ``copies`` envs."""
        low, high = self.cfg.latency_s
        drawn = torch.rand(len(rows) // copies, generator=self._generator).to(self.latency)
        self.latency[rows] = (low + (high - low) * drawn).repeat_interleave(copies) / self.dt_s
        self.age[rows] = self.latency[rows]

    def advance(self) -> Tensor:
        """Advance by one step; return the ages (B,)."""
        chance = torch.rand(2, len(self.age), generator=self._generator)
        chance = chance.to(self.age, non_blocking=True)
        came = self.latency + self.cfg.jitter_s / self.dt_s * chance[0]
        came = torch.where(chance[1] < self.cfg.loss, torch.inf, came)
        self.age = torch.minimum(came, self.age + 1.0).clamp(max=self.longest)
        return self.age

    def snapshot(self) -> dict[str, Any]:
        """Return latencies, ages and the random stream."""
        state = self._generator.get_state()
        return {"latency": self.latency.clone(), "age": self.age.clone(), "generator": state}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Restore the state from ``snapshot``."""
        device = self.age.device  # a checkpoint is read on the CPU
        self.latency, self.age = (snapshot[n].to(device, copy=True) for n in ("latency", "age"))
        self._generator.set_state(snapshot["generator"])


def delayed_values(values: Tensor, age: Tensor) -> Tensor:
    """Return the values of ``age`` (B,) steps ago, (B, …), from values (B, D, …), latest first.

    Values are interpolated linearly between steps; integers, such as pixels, take the older one.
    """
    newer = age.floor().long().clamp(max=values.shape[1] - 1)
    older = age.ceil().long().clamp(max=values.shape[1] - 1)
    rows = torch.arange(len(values), device=values.device)
    if not values.is_floating_point():
        return values[rows, older]
    share = (age - newer).view(-1, *[1] * (values.ndim - 2))
    return torch.lerp(values[rows, newer], values[rows, older], share.to(values))


def push_history(values: Tensor, latest: Tensor) -> Tensor:
    """Put latest (B, …) before values (B, D, …) and drop the oldest."""
    return torch.cat([latest.unsqueeze(1), values[:, :-1]], dim=1)


def fill_history(first: Tensor, depth: int) -> Tensor:
    """Return a history (n, D, …) filled with the first value (n, …)."""
    return first.unsqueeze(1).repeat_interleave(depth, dim=1)
