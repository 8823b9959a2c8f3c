"""A demonstrator's labels of the states that an env visits, whoever acts.

Shapes: B envs, A act_dim.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from robo_rl.api.env import Step, VecEnv
from robo_rl.api.task import Demonstrable, Demonstration, Expert
from robo_rl.core.errors import PluginError
from robo_rl.core.spec import TensorSpec
from robo_rl.data.dataset import EXECUTED


def find_demonstrator(env: VecEnv) -> Demonstrable:
    """Return the env or the task that brings a scripted expert.

    Raises:
        PluginError: Neither brings one, or the env has no view for it to act on.
    """
    # `dir` is used because the view may not be readable before the first reset.
    for brings in (env, getattr(env, "task", None)):
        if hasattr(brings, "expert") and "view" in dir(env):
            return cast(Demonstrable, brings)
    raise PluginError(
        "no scripted expert: neither the env nor its task brings one",
        hint="give one of them expert(), and the env a view for it to act on",
    )


def executed_column(env: VecEnv) -> dict[str, TensorSpec]:
    """Return the column of executed actions beside labels."""
    fields = env.act_spec.model_dump(include=set(TensorSpec.model_fields))
    return {EXECUTED: TensorSpec(**fields)}


class ExpertLabels:
    """Labels of a scripted expert without noise for states that a policy visits.

    Args:
        env: Env with an expert; its states are labelled.
        generator: Source of the expert's random numbers.

    Raises:
        PluginError: There is no expert, or its actions depend on more than the current state.
    """

    def __init__(self, env: VecEnv, generator: torch.Generator) -> None:
        self._env = env
        self._expert: Expert = find_demonstrator(env).expert(env.num_envs, generator, 0.0)
        _demand_memoryless(self._expert)
        self._ids = torch.arange(env.num_envs)

    def reset(self) -> None:
        """Begin a new episode in every env."""
        self._expert.reset(self._ids)

    def label(self) -> Tensor:
        """Return the expert's action (B, A) in the current state of every env."""
        return Demonstration.of(self._expert.act(cast(Any, self._env).view)).label

    def observe(self, step: Step) -> None:
        """Begin new episodes where a step ended one."""
        self._expert.reset(self._ids[step.terminated | step.truncated])


def _demand_memoryless(expert: Expert) -> None:
    """Refuse an expert that expects its own commands to have been executed."""
    if not getattr(expert, "memoryless", False):
        raise PluginError(
            "the scripted expert cannot label the states of another policy",
            where=type(expert).__name__,
            expected="an expert whose action is a function of the state, with memoryless = True",
            found="an expert that may remember its own commands",
            hint="record with labels: executed",
        )
