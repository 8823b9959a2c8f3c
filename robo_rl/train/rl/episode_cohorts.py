"""Training episodes, grouped by the block in which they began.

Shapes: B envs, E episodes. Counting episodes in the order in which they end favours short ones.
Where success ends an episode, the first episodes to end are all successes. Episodes that began
together are a fair sample once the last of them has ended.
"""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from robo_rl.core.stateful import Stateful


class EpisodeOutcomes(NamedTuple):
    """Success (E,) bool and return (E,) of finished episodes; a return is a sum of rewards."""

    success: Tensor
    returns: Tensor

    def metrics(self) -> dict[str, float]:
        """Return ``episodes`` and the means ``success`` and ``return``, NaN without episodes."""
        if not len(self.success):
            return {"episodes": 0.0, "success": math.nan, "return": math.nan}
        success, returns = (float(column.double().mean()) for column in self)
        return {"episodes": float(len(self.success)), "success": success, "return": returns}


class Cohorts(Stateful):
    """Collects the outcomes of episodes and returns them cohort by cohort.

    Args:
        num_envs: B.
        device: Where the env's tensors are.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("block", "running", "start_block", "ended")

    def __init__(self, num_envs: int, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)
        self.block = 0
        self.running = torch.zeros(num_envs, dtype=torch.float64, device=device)
        self.restart()

    def restart(self) -> None:
        """Begin an episode in every env; running episodes are not counted."""
        self.start_block = torch.full_like(self.running, self.block, dtype=torch.int64)
        self.running.zero_()
        self.ended = torch.zeros(0, 3, dtype=torch.float64)

    def discard_running(self) -> None:
        """Count only episodes that begin from now on, such as after a rollback of the policy."""
        self.start_block[:] = -1
        self.ended = self.ended[:0]

    def record_step(self, rew: Tensor, succeeded: Tensor, over: Tensor, lost: Tensor) -> None:
        """Add one decision of every env.

        Args:
            rew: (B,) sum of the decision's rewards.
            succeeded: (B,) bool, success so far.
            over: (B,) bool, which episodes ended.
            lost: (B,) bool, which episodes ended with the loss of their world; they are not
                counted.
        """
        self.running += rew
        counted = over & ~lost & (self.start_block >= 0)
        columns = (self.start_block, succeeded, self.running, counted)
        self._new.append(torch.stack([column.double() for column in columns], dim=1))
        self.running = torch.where(over, 0.0, self.running)
        self.start_block = torch.where(over, self.block, self.start_block)

    @property
    def ended(self) -> Tensor:
        """Block, success and return (E, 3) of the episodes that have ended, on the CPU."""
        if self._new:
            new = torch.cat(self._new).cpu()
            self.ended = torch.cat([self._ended, new[new[:, 3] > 0, :3]])
        return self._ended

    @ended.setter
    def ended(self, rows: Tensor) -> None:
        self._ended, self._new = rows, list[Tensor]()

    def finish_block(self) -> EpisodeOutcomes:
        """End the block; return the episodes of all cohorts in which no episode is running."""
        oldest = torch.where(self.start_block < 0, self.block, self.start_block).min()
        ended = self.ended
        done = ended[:, 0] < int(oldest)
        finished, self.ended = ended[done], ended[~done]
        self.block += 1
        return EpisodeOutcomes(finished[:, 1] > 0, finished[:, 2])

    def _loaded(self) -> None:
        self.running = self.running.to(self.device)
        self.start_block = self.start_block.to(self.device)
