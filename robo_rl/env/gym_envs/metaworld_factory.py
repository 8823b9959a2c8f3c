"""Meta-World's tasks as Gymnasium envs, imported by the workers of ``MetaWorld``.

Each task is the goal-observable class without Meta-World's fixed list of 50 goals: every reset
draws goal and object from the env's own seeded generator.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import gymnasium

from robo_rl.core.errors import ConfigError
from robo_rl.core.suggestions import did_you_mean
from robo_rl.env.gym_envs.success_episodes import Reward, SuccessEpisodes

ID = "robo_rl/MetaWorld-v3"

_OWN = 4  # the position of the hand and the opening of the gripper
_GOAL_OBSERVABLE = "-goal-observable"
_DENSE_SCALE = 0.1  # Meta-World's own reward is at most 10 per step


def make(
    task: str,
    reward: Reward,
    *,
    terminate_on_success: bool,
    quick: bool = True,
    proprio: bool = False,
) -> gymnasium.Env[Any, Any]:
    """Return one env of a task, without a time limit.

    Args:
        task: A name as ``push-v3``.
        reward: See ``MetaWorldConfig``.
        terminate_on_success: See ``MetaWorldConfig``.
        quick: Use the faster methods of ``metaworld_fast``, which give the same results. They
            replace methods of Meta-World's classes in this process.
        proprio: Whether hand and gripper are an item of their own, ``proprio``, beside ``state``.

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
    episodes = _Episodes(env, reward, _cost, terminate_on_success=terminate_on_success)
    return _with_proprio(episodes) if proprio else episodes


class _Episodes(SuccessEpisodes):
    """Seeds Meta-World's env, which does not read the seed of ``reset``."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a new episode with a seed; without a seed, continue the random stream."""
        env: Any = self.env
        if seed is not None:
            env.seed(seed)
        return super().reset()


def _with_proprio(env: Any) -> Any:
    spaces, whole = gymnasium.spaces, env.observation_space
    part = spaces.Box(whole.low[:_OWN], whole.high[:_OWN], dtype=whole.dtype)
    return gymnasium.wrappers.TransformObservation(
        env,
        lambda state: {"state": state, "proprio": state[:_OWN]},
        spaces.Dict({"state": whole, "proprio": part}),
    )


def _cost(dense: float) -> float:
    return dense * _DENSE_SCALE - 1.0


def _env_class(task: str) -> Any:
    from metaworld.env_dict import ALL_V3_ENVIRONMENTS_GOAL_OBSERVABLE as CLASSES

    if (cls := CLASSES.get(task + _GOAL_OBSERVABLE)) is not None:
        return cls
    known = [name.removesuffix(_GOAL_OBSERVABLE) for name in CLASSES]
    raise ConfigError(f"no task '{task}'", where="Meta-World", hint=did_you_mean(task, known))


gymnasium.register(ID, entry_point=f"{__name__}:make", disable_env_checker=True)
