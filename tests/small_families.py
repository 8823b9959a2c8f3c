"""What the tests of every family of Gymnasium tasks with scripted experts do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from robo_rl.core.seeding import make_generator


def makers(family: type[Any], first: str) -> Iterator[Callable[..., Any]]:
    """Yields a function that makes envs of a family, of task ``first`` by default; closes them."""
    made: list[Any] = []

    def make(task: Any = first, num_envs: int = 4, **fields: Any) -> Any:
        made.append(family(family.Config(task=task, **{"workers": 2, **fields}), num_envs))
        return made[-1]

    yield make
    for env in made:
        env.close()


def demonstrate(env: Any, steps: int, noise: float = 0.0) -> list[Any]:
    """All steps of the expert, env b's first episode and what follows it."""
    expert = env.expert(env.num_envs, make_generator("expert", 0), noise)
    return [env.step(expert.act(env.view).act) for _ in range(steps)]
