"""The interface of a trainer: gradient steps and a resumable state."""

from __future__ import annotations

from abc import ABC, abstractmethod

from robo_rl.core.stateful import Stateful


class Trainable(Stateful, ABC):
    """An object that is trained by gradient steps and resumed from its state."""

    @abstractmethod
    def step(self) -> dict[str, float]:
        """Take one gradient step; return its metrics."""
