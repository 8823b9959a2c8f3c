"""Episodes of a Gymnasium task that end at success, with one of two rewards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import gymnasium

Reward = Literal["success", "dense"]


class SuccessEpisodes(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Ends episodes at success and computes the chosen reward; ``info`` has only the success.

    ``success`` is 1 in the first successful step of an episode and 0 in all others. ``dense`` is
    the cost, but 0 at success.

    Args:
        env: Its ``info`` has a flag of success.
        reward: The chosen reward.
        cost: Maps the env's own reward to a cost between -1 and 0.
        flag: The name of the flag.
        terminate_on_success: Whether success ends an episode.
    """

    def __init__(
        self,
        env: Any,
        reward: Reward,
        cost: Callable[[float], float],
        *,
        flag: str = "success",
        terminate_on_success: bool,
    ) -> None:
        super().__init__(env)
        self._reward, self._cost, self._flag = reward, cost, flag
        self._terminate = terminate_on_success
        self._succeeded = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a new episode with a seed; without a seed, continue the random stream."""
        self._succeeded = False
        return self.env.reset(seed=seed)[0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one control step."""
        obs, dense, _, _, info = self.env.step(action)
        success = bool(info[self._flag])
        first, self._succeeded = success and not self._succeeded, success or self._succeeded
        rew = self._rew(float(dense), success=success, first=first)
        return obs, rew, success and self._terminate, False, {"success": float(success)}

    def _rew(self, dense: float, *, success: bool, first: bool) -> float:
        if self._reward == "success":
            return float(first)
        return 0.0 if success else self._cost(dense)
