"""Messages between a policy and a robot that take their time: what was heard last, and how old.

Shapes: B envs, D steps that are remembered, the latest first. Times are seconds, ages control
steps. The same three numbers as the simulated robot's lag: latency, jitter, loss.
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

_HELD = 3  # steps that losses may add to an age: a robot holds when nothing came for so long


class MessageDelay:
    """How old what arrives is, env by env.

    The newest message counts, so an age grows by at most one step a step, and falls when something
    newer comes.

    Args:
        cfg: See Config.
        num_envs: B.
        dt_s: Control step.
        device: Where ages are.
        purpose: Of its random stream.
    """

    class Config(ConfigModel):
        """One direction.

        Args:
            latency_s: Range from which an episode's least delay is drawn, uniformly.
            jitter_s: A uniform draw up to this comes on top, of every message.
            loss: Share of messages that never arrives.
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
        """D, what has to be remembered to look back as far as that."""
        return math.ceil(self.longest - 1e-6) + 1

    def seed(self, seed: int) -> None:
        """Begin the random stream of that seed."""
        self._generator = make_generator(self.purpose, seed)

    def restart(self, rows: Tensor, copies: int = 1) -> None:
        """Episodes begin in the envs rows (n,): latencies are drawn, one for ``copies`` envs."""
        low, high = self.cfg.latency_s
        drawn = torch.rand(len(rows) // copies, generator=self._generator).to(self.latency)
        self.latency[rows] = (low + (high - low) * drawn).repeat_interleave(copies) / self.dt_s
        self.age[rows] = self.latency[rows]

    def advance(self) -> Tensor:
        """Ages (B,) a step later."""
        chance = torch.rand(2, len(self.age), generator=self._generator).to(self.age)
        came = self.latency + self.cfg.jitter_s / self.dt_s * chance[0]
        came = torch.where(chance[1] < self.cfg.loss, torch.inf, came)
        self.age = torch.minimum(came, self.age + 1.0).clamp(max=self.longest)
        return self.age

    def snapshot(self) -> dict[str, Any]:
        """Latencies, ages and the random stream."""
        state = self._generator.get_state()
        return {"latency": self.latency.clone(), "age": self.age.clone(), "generator": state}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """From ``snapshot``."""
        self.latency, self.age = snapshot["latency"].clone(), snapshot["age"].clone()
        self._generator.set_state(snapshot["generator"])


def delayed_values(values: Tensor, age: Tensor) -> Tensor:
    """Of values (B, D, …), the latest first, those of ``age`` (B,) steps ago, (B, …).

    Linear between steps; of integers, such as pixels, the older one.
    """
    newer = age.floor().long().clamp(max=values.shape[1] - 1)
    older = age.ceil().long().clamp(max=values.shape[1] - 1)
    rows = torch.arange(len(values), device=values.device)
    if not values.is_floating_point():
        return values[rows, older]
    share = (age - newer).view(-1, *[1] * (values.ndim - 2))
    return torch.lerp(values[rows, newer], values[rows, older], share.to(values))


def push_history(values: Tensor, latest: Tensor) -> Tensor:
    """Values (B, D, …) with the latest (B, …) before them, the oldest forgotten."""
    return torch.cat([latest.unsqueeze(1), values[:, :-1]], dim=1)


def fill_history(first: Tensor, depth: int) -> Tensor:
    """A memory (n, D, …) that knows nothing but the first (n, …)."""
    return first.unsqueeze(1).repeat_interleave(depth, dim=1)
