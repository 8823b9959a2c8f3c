"""Meta-World's tasks as Gymnasium envs, imported by the workers of ``MetaWorld``.

Each task is the goal-observable class without Meta-World's fixed list of 50 goals: every reset
draws goal and object from the env's own seeded generator.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any, Literal

import gymnasium

from robo_rl.core.errors import ConfigError
from robo_rl.core.suggestions import did_you_mean

ID = "robo_rl/MetaWorld-v3"
Reward = Literal["success", "dense"]

_GOAL_OBSERVABLE = "-goal-observable"
_DENSE_SCALE = 0.1  # Meta-World's own reward is at most 10 per step


def make(
    task: str, reward: Reward, *, terminate_on_success: bool, quick: bool = True
) -> gymnasium.Env[Any, Any]:
    """Return one env of a task, without a time limit.

    Args:
        task: A name as ``push-v3``.
        reward: See ``MetaWorldConfig``.
        terminate_on_success: See ``MetaWorldConfig``.
        quick: Use the faster methods of ``metaworld_fast``, which give the same results. They
            replace methods of Meta-World's classes in this process.

    Raises:
        ConfigError: There is no such task.
    """
    warnings.filterwarnings("ignore", module=r"metaworld|gymnasium")
    cls = _env_class(task)
    if quick:
        from robo_rl.env.gym_envs.metaworld_fast import use_fast_methods

        use_fast_methods(cls)
    env = cls(seed=0)
    env._freeze_rand_vec = False
    env.seeded_rand_vec = True
    env.max_path_length = sys.maxsize  # the time limit is Gymnasium's
    return _Episodes(env, reward, terminate_on_success=terminate_on_success)


class _Episodes(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Seeds the env by ``reset``, ends episodes at success, and computes the chosen reward."""

    def __init__(self, env: Any, reward: Reward, *, terminate_on_success: bool) -> None:
        super().__init__(env)
        self._reward, self._terminate = reward, terminate_on_success
        self._succeeded = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a new episode with a seed; without a seed, continue the random stream."""
        env: Any = self.env
        if seed is not None:
            env.seed(seed)
        self._succeeded = False
        return env.reset()[0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one control step; ``info`` contains only the success."""
        obs, dense, _, _, info = self.env.step(action)
        success = bool(info["success"])
        first, self._succeeded = success and not self._succeeded, success or self._succeeded
        rew = self._rew(float(dense), success=success, first=first)
        return obs, rew, success and self._terminate, False, {"success": float(success)}

    def _rew(self, dense: float, *, success: bool, first: bool) -> float:
        if self._reward == "success":
            return float(first)
        return 0.0 if success else dense * _DENSE_SCALE - 1.0


def _env_class(task: str) -> Any:
    from metaworld.env_dict import ALL_V3_ENVIRONMENTS_GOAL_OBSERVABLE as CLASSES

    if (cls := CLASSES.get(task + _GOAL_OBSERVABLE)) is not None:
        return cls
    known = [name.removesuffix(_GOAL_OBSERVABLE) for name in CLASSES]
    raise ConfigError(f"no task '{task}'", where="Meta-World", hint=did_you_mean(task, known))


gymnasium.register(ID, entry_point=f"{__name__}:make", disable_env_checker=True)
