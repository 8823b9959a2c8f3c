"""Gymnasium-Robotics' Fetch tasks as Gymnasium envs, imported by the workers of ``GymRobotics``."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import gymnasium
import numpy as np

from robo_rl.env.gym_envs.success_episodes import Reward, SuccessEpisodes

with contextlib.redirect_stderr(io.StringIO()):  # the package prints a notice about other tasks
    import gymnasium_robotics

ID = "robo_rl/GymRobotics-v0"
_FARTHEST_M = 0.5  # the largest distance to a goal is some 0.6 m


def make(task: str, reward: Reward, *, terminate_on_success: bool) -> gymnasium.Env[Any, Any]:
    """Return one env of a task, without a time limit.

    Args:
        task: An id as ``FetchPush-v4``.
        reward: See ``GymRoboticsConfig``.
        terminate_on_success: See ``GymRoboticsConfig``.
    """
    gymnasium.register_envs(gymnasium_robotics)
    env = gymnasium.make(task, max_episode_steps=-1, disable_env_checker=True, reward_type="dense")
    return SuccessEpisodes(
        _with_goal(env),
        reward,
        _cost,
        flag="is_success",
        terminate_on_success=terminate_on_success,
    )


def _with_goal(env: Any) -> Any:
    """Return the env with one vector (28,) as observation: its own, then the goal."""
    names = ("observation", "desired_goal")
    size = sum(env.observation_space[name].shape[0] for name in names)
    space = gymnasium.spaces.Box(-np.inf, np.inf, (size,))
    return gymnasium.wrappers.TransformObservation(
        env, lambda obs: np.concatenate([obs[name] for name in names], dtype=np.float32), space
    )


def _cost(dense: float) -> float:
    return max(dense / _FARTHEST_M, -1.0)


gymnasium.register(ID, entry_point=f"{__name__}:make", disable_env_checker=True)
