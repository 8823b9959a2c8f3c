"""Which tasks the new episodes of a multi-task env run, by how often each task fails.

A task that always succeeds teaches nothing, and neither does one that is never drawn. Tasks are
drawn in proportion to their failure rate, above a floor, after the idea of dynamic sampling (Yu et
al. 2025, "DAPO", arXiv 2503.14476, section 3.2), which drops prompts that always or never succeed.

Shapes: B envs, N tasks.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from robo_rl.api.env import TASK, MultiTask, VecEnv, task_names
from robo_rl.config.models import OmitsDefaults
from robo_rl.core.errors import ConfigError
from robo_rl.core.stateful import Stateful
from robo_rl.env.chunk_env import ChunkStep

EPISODES, SUCCESSES = "episodes/", "successes/"
KEEP = 0.8
"""Weight that the counts of earlier blocks keep with each block."""
FLOOR = 0.1
"""Added to the failure rate of a task."""


class TaskSampling(OmitsDefaults):
    """How the tasks of new episodes are drawn."""

    task_sampling: Literal["even", "failures"] = "even"
    """``even``, or in proportion to the ``failures`` of each task plus 10 %."""

    omitted: ClassVar[tuple[str, ...]] = ("task_sampling",)


class TaskSampler(Stateful):
    """Counts the episodes of each task and weighs the tasks of the next ones.

    Args:
        env: Env of several tasks.
        by_failures: Whether tasks are weighed; else they are counted only.
        device: Device of the env's tensors.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("episodes", "successes")

    def __init__(self, env: MultiTask, by_failures: bool, device: torch.device) -> None:
        self.names, self._env, self._by_failures = env.task_names, env, by_failures
        self.episodes, self.successes = torch.zeros(2, len(self.names), dtype=torch.float64)
        self._new = torch.zeros(2, len(self.names), dtype=torch.float64, device=device)

    @classmethod
    def of(cls, env: VecEnv, by_failures: bool) -> TaskSampler | None:
        """Return a sampler; None for an env of one task.

        Raises:
            ConfigError: Tasks are to be weighed, and there is one.
        """
        if not isinstance(env, MultiTask) or not task_names(env):
            if by_failures:
                raise ConfigError(
                    "no tasks to draw from",
                    where="online.task_sampling",
                    expected="an env of several tasks, such as that of coloured_table",
                    hint="set task_sampling to even",
                )
            return None
        return cls(env, by_failures, env.device)

    def record(self, step: ChunkStep, succeeded: Tensor, over: Tensor) -> None:
        """Count the episodes that end with a decision.

        Args:
            step: The decision.
            succeeded: (B,) bool, success so far.
            over: (B,) bool, which episodes end.
        """
        tasks = torch.arange(len(self.names), device=over.device)
        ended = (step.metrics[TASK].long()[:, None] == tasks) & (over & ~step.lost)[:, None]
        self._new[0] += ended.sum(0)
        self._new[1] += (ended & succeeded[:, None]).sum(0)

    def finish_block(self) -> dict[str, float]:
        """Weigh the tasks anew; return the counts of the block by task."""
        episodes, successes = self._new.cpu().clone()
        self._new.zero_()
        self.episodes = KEEP * self.episodes + episodes
        self.successes = KEEP * self.successes + successes
        self._weigh()
        counts = {EPISODES: episodes.tolist(), SUCCESSES: successes.tolist()}
        return {
            f"{kind}{name}": count
            for kind, found in counts.items()
            for name, count in zip(self.names, found, strict=True)
        }

    def _weigh(self) -> None:
        """Weigh by failures; a task without an episode counts as failed in half of them."""
        if self._by_failures:
            failed = 1 - (self.successes + 0.5) / (self.episodes + 1)
            self._env.weigh_tasks(failed + FLOOR)

    def _loaded(self) -> None:
        self._weigh()


def success_by_task(stats: dict[str, float]) -> dict[str, float]:
    """Return metrics with ``success/<task>`` in place of the number of successes, if any."""
    found = {name: value for name, value in stats.items() if not name.startswith(SUCCESSES)}
    for name, wins in stats.items():
        task = name.removeprefix(SUCCESSES)
        if task != name and (episodes := stats[f"{EPISODES}{task}"]):
            found[f"success/{task}"] = wins / episodes
    return found
