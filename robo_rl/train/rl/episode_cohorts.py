"""Training episodes, grouped by the block in which they began.

Shapes: B envs, E episodes. Counting episodes in the order in which they end favours short ones.
Where success ends an episode, the first episodes to end are all successes. Episodes that began
together are a fair sample once the last of them has ended.

Tasks that are drawn by their failures fail more often the better the others become. The outcomes of
a block then have equally many episodes of each task, so that a score falls with the policy alone.
"""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from robo_rl.core.stateful import Stateful

KEPT_BLOCKS = 8
"""Blocks for which episodes wait for one of the task that has none."""


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
        device: Device of the env's tensors.
        balanced_tasks: Number of tasks whose episodes are balanced; 1 returns all episodes.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("block", "running", "start_block", "ended")

    def __init__(
        self, num_envs: int, device: torch.device | str = "cpu", *, balanced_tasks: int = 1
    ) -> None:
        self.device, self.balanced_tasks = torch.device(device), balanced_tasks
        self.block = 0
        self.running = torch.zeros(num_envs, dtype=torch.float64, device=device)
        self.start_block = torch.zeros_like(self.running, dtype=torch.int64)
        self.ended = torch.zeros(0, 4, dtype=torch.float64)

    def restart(self) -> None:
        """Begin an episode in every env; running episodes are not counted, nor their cohorts.

        Episodes of whole cohorts go on waiting for a task that has none.
        """
        self.ended = self.ended[self.ended[:, 0] < int(self.start_block.min())]
        self.start_block = torch.full_like(self.start_block, self.block)
        self.running.zero_()

    def discard_running(self) -> None:
        """Count only episodes that begin from now on, such as after a rollback of the policy."""
        self.start_block[:] = -1
        self.ended = self.ended[:0]

    def record_step(
        self,
        rew: Tensor,
        succeeded: Tensor,
        over: Tensor,
        lost: Tensor,
        task: Tensor | None = None,
    ) -> None:
        """Add one decision of every env.

        Args:
            rew: (B,) sum of the decision's rewards.
            succeeded: (B,) bool, success so far.
            over: (B,) bool, which episodes ended.
            lost: (B,) bool, which episodes ended with the loss of their world; they are not
                counted.
            task: (B,) index of each episode's task; None for one task.
        """
        self.running += rew
        counted = over & ~lost & (self.start_block >= 0)
        of = torch.zeros_like(self.running) if task is None else task
        columns = (self.start_block, succeeded, self.running, of, counted)
        self._new.append(torch.stack([column.double() for column in columns], dim=1))
        self.running = torch.where(over, 0.0, self.running)
        self.start_block = torch.where(over, self.block, self.start_block)

    @property
    def ended(self) -> Tensor:
        """Block, success, return and task (E, 4) of the ended episodes, on the CPU."""
        if self._new:
            new = torch.cat(self._new).cpu()
            self.ended = torch.cat([self._ended, new[new[:, 4] > 0, :4]])
        return self._ended

    @ended.setter
    def ended(self, rows: Tensor) -> None:
        self._ended, self._new = rows, list[Tensor]()

    def finish_block(self) -> EpisodeOutcomes:
        """End the block; return the episodes of all cohorts in which no episode is running.

        Of tasks that are balanced, the least number of episodes of a task is returned of each.
        While a task has none, the others' episodes of the last ``KEPT_BLOCKS`` blocks wait for it.
        """
        oldest = torch.where(self.start_block < 0, self.block, self.start_block).min()
        ended = self.ended
        done = ended[:, 0] < int(oldest)
        finished, self.ended = ended[done], ended[~done]
        self.block += 1
        if self.balanced_tasks > 1:
            picked = balanced_rows(finished[:, 3], self.balanced_tasks)
            if not len(picked):
                recent = finished[finished[:, 0] >= int(oldest) - KEPT_BLOCKS]
                self.ended = torch.cat([recent, self.ended])
            finished = finished[picked]
        return EpisodeOutcomes(finished[:, 1] > 0, finished[:, 2])

    def _loaded(self) -> None:
        self.running = self.running.to(self.device)
        self.start_block = self.start_block.to(self.device)
        if (rows := self.ended).shape[1] == 3:  # of a checkpoint without tasks
            self.ended = torch.cat([rows, torch.zeros_like(rows[:, :1])], dim=1)


def balanced_rows(task: Tensor, tasks: int) -> Tensor:
    """Return indices of equally many rows of each task, spread evenly over the rows of each.

    Rows are in the order in which episodes end, and early ones succeed more often.

    Args:
        task: (E,), indices of tasks.
        tasks: Number of tasks; without a row of one of them no row is returned.
    """
    rows = [(task == index).nonzero().flatten() for index in range(tasks)]
    least = min(len(each) for each in rows)
    places = (torch.arange(least) + 0.5) / max(least, 1)
    picked = [each[(places * len(each)).long()] for each in rows]
    return torch.cat(picked).sort().values
