"""Observations and transitions of a task, as float32 copies of a backend's arrays.

Shapes: B envs, A act_dim, n envs of a view.
"""

from __future__ import annotations

import torch
from torch import Tensor

from robo_rl.api.env import REW_PART, SimView, Step
from robo_rl.api.task import Task
from robo_rl.env.instructions import Instructions, task_metric
from robo_rl.env.mujoco.episode_clock import EpisodeClock
from robo_rl.env.mujoco.step_health import StepHealth
from robo_rl.env.transitions import without_invalid

Obs = dict[str, Tensor]


class StepEvaluator:
    """Asks a task for the observation, reward, end and metrics of each control step.

    It reads no number, so that a GPU has a whole sequence before the host waits for it.

    Args:
        task: The task.
        clock: Clock of the episodes; ``evaluate`` advances it.
        words: Adds the instruction to observations, where the task is told in words.
    """

    def __init__(self, task: Task, clock: EpisodeClock, words: Instructions | None) -> None:
        self._task, self._clock, self._words = task, clock, words

    def observe(self, view: SimView) -> Obs:
        """Return the observation name → (n, …) of a view, without images."""
        told = self._words.observe(view.goal) if self._words else {}
        return {name: _kept(value) for name, value in self._task.observe(view).items()} | told

    def evaluate(
        self, view: SimView, act: Tensor, live: Tensor, before: Obs, health: StepHealth
    ) -> Step:
        """Return the transition that ends at a view (B), without images, before any reset.

        Args:
            view: The worlds after the control step, with the goals of their episodes.
            act: Action (B, A).
            live: (B,) False where the episode ended earlier in the sequence.
            before: Last valid observation of each env, which invalid transitions repeat.
            health: Judges the values of the step.
        """
        task, clock = self._task, self._clock
        clock.advance()
        good = clock.agrees(view.time_s) & _is_finite(view)
        rew, parts = task.reward(view, act)
        terminated = task.terminated(view)
        metrics = {f"{REW_PART}{name}": _kept(value) for name, value in parts.items()}
        metrics |= {name: _kept(count) for name, count in view.counters.items()}
        metrics |= task_metric(task, view.goal)
        metrics["success"] = _kept(task.success(view))
        metrics["nan_worlds"] = torch.zeros(len(live), device=live.device)
        obs, rew = self.observe(view), _kept(rew)
        good = good & health.judge(rew, obs, live & good)
        over = clock.at_limit & ~terminated
        step = Step(obs, obs, rew, terminated, over, live & good, metrics)
        return without_invalid(step, live & ~good, before)


def _is_finite(view: SimView) -> Tensor:
    total = view.qpos.sum(1) + view.qvel.sum(1) + view.ctrl.sum(1) + view.sensordata.sum(1)
    return torch.isfinite(total)


def _kept(value: Tensor) -> Tensor:
    """Return a float32 copy; views and goals are in memory that is reused."""
    return value.to(torch.float32, copy=True)
