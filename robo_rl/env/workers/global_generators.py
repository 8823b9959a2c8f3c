"""The global random generators, with a stream of its own for each env of one worker.

Some envs draw from ``random`` and ``numpy.random`` instead of their own generator. Switching the
streams costs more than a step of a small env, so it stops for an env that does not draw from them.
"""

from __future__ import annotations

import random
from typing import Any, Literal

import numpy as np

Phase = Literal["reset", "step"]


class GlobalGenerators:
    """The states of ``random`` and ``numpy.random`` for each of some envs in one process.

    Resets and steps of an env are observed until the end of its first whole episode. From then on,
    a phase in which the env drew nothing runs without a switch. An env that draws for the first
    time after that episode shares its stream with the others of its worker.

    Args:
        num_envs: Number of the envs; a single env needs no switch.
    """

    def __init__(self, num_envs: int) -> None:
        envs = range(num_envs if num_envs > 1 else 0)
        self._states: list[Any] = [None] * num_envs
        self._switched: dict[Phase, set[int]] = {"reset": set(envs), "step": set(envs)}
        self._draws: dict[Phase, set[int]] = {"reset": set(), "step": set()}

    def seed(self, env: int, seed: int) -> None:
        """Seed the stream of an env, and switch to it."""
        random.seed(seed)
        np.random.seed(seed)
        self._states[env] = _state()

    def begin(self, env: int, phase: Phase) -> None:
        """Switch to the stream of an env, before a phase."""
        if env in self._switched[phase] and self._states[env] is not None:
            own, numpys = self._states[env]
            random.setstate(own)
            np.random.set_state(numpys)

    def end(self, env: int, phase: Phase) -> None:
        """Keep the stream of an env, after a phase."""
        if env in self._switched[phase]:
            before, self._states[env] = self._states[env], _state()
            if not _equal(before, self._states[env]):
                self._draws[phase].add(env)

    def end_episode(self, env: int) -> None:
        """Stop switching for the phases of an env's whole episode in which it drew nothing."""
        for phase, switched in self._switched.items():
            if env not in self._draws[phase]:
                switched.discard(env)


def _state() -> tuple[Any, Any]:
    return random.getstate(), np.random.get_state()


def _equal(one: Any, other: Any) -> bool:
    if one is None or one[0] != other[0]:
        return False
    return all(np.array_equal(a, b) for a, b in zip(one[1], other[1], strict=True))
