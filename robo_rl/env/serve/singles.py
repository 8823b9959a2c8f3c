"""A batch of single envs for ``WorldSession``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any


class SequentialEnvs:
    """A batch of single envs, stepped in sequence and reset where their episode ends.

    Args:
        envs: B of them, see ``WorldSession``.
    """

    def __init__(self, envs: Sequence[Any]) -> None:
        self._envs, self.world = envs, envs[0].world

    def reset(self, seeds: Sequence[int] | None) -> dict[str, Any]:
        """Start a new episode in every env."""
        each = seeds or [None] * len(self._envs)
        return _stack([env.reset(seed) for env, seed in zip(self._envs, each, strict=True)])

    def restart(self, ids: Any) -> dict[str, Any]:
        """Start a new episode in the envs ids (n,); only their rows are valid."""
        some = {int(i): self._envs[i].reset(None) for i in ids}
        blank = next(iter(some.values()))
        return _stack([some.get(i, blank) for i in range(len(self._envs))])

    def step(self, act: Any) -> dict[str, Any]:
        """Step every env."""
        import numpy as np

        steps = [env.step(row) for env, row in zip(self._envs, act, strict=True)]
        successors, rew, terminated, truncated, metrics = zip(*steps, strict=True)
        obs = [
            env.reset(None) if over or cut else successor
            for env, successor, over, cut in zip(
                self._envs, successors, terminated, truncated, strict=True
            )
        ]
        return {
            "obs": _stack(obs),
            "next_obs": _stack(successors),
            "rew": np.array(rew, dtype=np.float64),
            "terminated": np.array(terminated, dtype=bool),
            "truncated": np.array(truncated, dtype=bool),
            "metrics": _stack(metrics),
        }

    def demonstrate(self) -> Any:
        """Return the action of each env's demonstrator."""
        import numpy as np

        return np.stack([env.demonstrate() for env in self._envs])

    def close(self) -> None:
        """Close every env that has ``close``."""
        for env in self._envs:
            with suppress(Exception):
                getattr(env, "close", lambda: None)()


def _stack(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    import numpy as np

    return {name: np.stack([np.asarray(row[name]) for row in rows]) for name in rows[0]}
