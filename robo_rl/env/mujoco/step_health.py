"""Which worlds have a finite reward and observation, and whether the task is at fault if none has.

Shapes: B envs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from robo_rl.api.task import Task
from robo_rl.env.mujoco.task_check.problems import Problems


class _Judged(NamedTuple):
    rew: Tensor
    obs: Mapping[str, Tensor]
    good: Tensor


class StepHealth:
    """Judges the steps of one open-loop sequence; the host reads the verdicts together.

    As a context it reports at its end, also where a later step of the sequence fails.

    Args:
        task: The task, named in the error.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._judged: list[_Judged] = []
        self._faulty: list[Tensor] = []

    def __enter__(self) -> StepHealth:
        return self

    def __exit__(self, *error: object) -> None:
        self.report()

    def judge(self, rew: Tensor, obs: Mapping[str, Tensor], good: Tensor) -> Tensor:
        """Return (B,) True where reward (B,) and observations are finite in float32.

        A single diverged world is lost on its own. If no good (B,) world is finite, the task is at
        fault, and ``report`` says so.
        """
        finite = _finite(rew[:, None], obs)
        self._judged.append(_Judged(rew, obs, good))
        self._faulty.append(good.any() & ~(finite & good).any())
        return finite

    def report(self) -> None:
        """Check the steps so far; this waits for a GPU once.

        Raises:
            PluginError: No good world of a step is finite; the error names the value.
        """
        verdicts: list[bool] = torch.stack(self._faulty).tolist() if self._faulty else []
        for judged, faulty in zip(self._judged, verdicts, strict=True):
            if faulty:
                _demand_finite(self._task, judged)


def demand_finite_start(task: Task, obs: Mapping[str, Tensor], ids: Tensor) -> None:
    """Check the first observations, name → (n, …), of the envs ids (n,).

    Raises:
        PluginError: A value is NaN or infinite; the error names it.
    """
    rew = torch.zeros(len(ids), device=ids.device)
    if not bool(_finite(rew[:, None], obs).all()):
        _demand_finite(task, _Judged(rew, obs, torch.ones_like(ids, dtype=torch.bool)))


def _finite(rew: Tensor, obs: Mapping[str, Tensor]) -> Tensor:
    values = [rew, *(value.reshape(len(value), -1) for value in obs.values())]
    return torch.isfinite(torch.cat(values, dim=1)).all(1)


def _demand_finite(task: Task, judged: _Judged) -> None:
    problems = Problems(task)
    for method, name, value in [
        ("reward", "reward", judged.rew),
        *(("observe", f"obs '{name}'", value) for name, value in judged.obs.items()),
    ]:
        problems.finite(method, f"{name} of a world that is well", value[judged.good])
    problems.report()
