"""The sentences of a task as an item of the observation, and the task of each episode as a metric.

Shapes: S sentences, n envs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from robo_rl.api.env import TASK
from robo_rl.api.task import Instructed, Task, TaskGroup
from robo_rl.config.component import Component
from robo_rl.core.errors import ConfigError, PluginError
from robo_rl.core.spec import ObsSpec
from robo_rl.language.base import INSTRUCTION, TextEncoder


class Instructions:
    """The encoded sentences of a task.

    Args:
        encoder: Encoder of the sentences.
        task: The task.
        device: Device of the env.

    Raises:
        ConfigError: The task has no instruction, or a sentence is too long.
        PluginError: The task gives no sentences.
    """

    def __init__(self, encoder: Component[TextEncoder], task: Task, device: torch.device) -> None:
        if not isinstance(task, Instructed):
            raise ConfigError(
                f"task {type(task).__name__} has no instruction",
                where="env.text_encoder",
                expected="a task with sentences, such as coloured_table",
                hint="leave env.text_encoder out",
            )
        if not task.sentences:
            raise PluginError("a task without sentences", where=type(task).__name__)
        built = encoder.build()
        self.spec = built.spec
        self._table = torch.from_numpy(built.encode(task.sentences)).to(device)

    def add_item(self, spec: ObsSpec) -> ObsSpec:
        """Return an observation spec with the instruction as its last item."""
        return ObsSpec(items={**spec.items, INSTRUCTION: self.spec})

    def observe(self, goal: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the instructions of envs with these goals, (n, …)."""
        return {INSTRUCTION: self._table[goal[INSTRUCTION]]}


def told_sentences(env: Any) -> list[str]:
    """Return the sentence of each env's present episode; empty where the env tells none."""
    task, view = getattr(env, "task", None), getattr(env, "view", None)
    if not isinstance(task, Instructed) or view is None or INSTRUCTION not in view.goal:
        return []
    return [task.sentences[number] for number in view.goal[INSTRUCTION].tolist()]


def task_metric(task: Task, goal: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the index of each env's task (n,) float32; empty without a task group."""
    return {TASK: goal[TASK].float()} if isinstance(task, TaskGroup) else {}
