"""What is trained step by step, and resumed from its state."""

from __future__ import annotations

from abc import ABC, abstractmethod

from robo_rl.core.stateful import Stateful


class Trainable(Stateful, ABC):
    """An object that is trained by gradient steps, and resumed from its state."""

    @abstractmethod
    def step(self) -> dict[str, float]:
        """One gradient step; returns its metrics."""
