"""Scripted policies as demonstrators, with noise in their actions.

Shapes: B envs, O obs_dim, A act_dim.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import torch
from torch import Tensor

from robo_rl.api.task import Demonstration


class ScriptedExpert:
    """A scripted policy in B envs; an ``Expert`` that acts on observations.

    Gaussian noise is added to each element of its action after clipping to [-1, 1], and the sum is
    clipped again. With a standard deviation of 0.1 to 0.6 demonstrations are shaky, and in hard
    tasks some fail. Correlated noise n' = ρ·n + √(1 − ρ²)·ε has the same standard deviation.
    However, its errors add up over steps, as those of a poor operator do, instead of averaging out.

    Args:
        policy: A function of the observations (B, O) alone, to actions (B, A).
        num_envs: B.
        generator: Source of the noise.
        noise: Standard deviation of the noise, in units of the action.
        memory: ρ, its correlation from one step to the next, in [0, 1).
    """

    memoryless: ClassVar[bool] = True

    def __init__(
        self,
        policy: Callable[[Tensor], Tensor],
        num_envs: int,
        generator: torch.Generator,
        noise: float,
        memory: float = 0.0,
    ) -> None:
        self._policy = policy
        self._generator, self._noise, self._memory = generator, noise, memory
        self._drift = torch.zeros(num_envs, 1)
        self._keeps = torch.zeros(num_envs, 1)  # ρ, but 0 at an episode's first step

    def reset(self, ids: Tensor) -> None:
        """Restart the noise in the envs ids (n,); the policy is a function of the observation."""
        self._keeps[ids] = 0.0

    def act(self, view: Mapping[str, Tensor]) -> Demonstration:
        """Return the demonstrated action (B, A) at the observations ``state`` (B, O).

        The label is the policy's action before the noise.
        """
        label = self._policy(view["state"]).clamp(-1.0, 1.0)
        fresh = torch.randn(label.shape, generator=self._generator)
        self._drift = self._keeps * self._drift + (1.0 - self._keeps.square()).sqrt() * fresh
        self._keeps = torch.full_like(self._keeps, self._memory)
        act = (label + self._noise * self._drift).clamp(-1.0, 1.0)
        return Demonstration(act, label)
