"""robosuite's tasks with one robot: Lift, PickPlaceCan, NutAssemblySquare and others.

``robo-rl env create robosuite`` makes the interpreter. Actions are those of the robot's own
controller, in [-1, 1]: for arms displacement and rotation of the hand, and the gripper.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

_KEYS = ("robot0_eef_pos", "robot0_eef_quat", "robot0_gripper_qpos", "object-state")


def make_one(
    index: int,
    task: str = "Lift",
    robot: str = "Panda",
    max_episode_steps: int = 200,
    keys: Sequence[str] = _KEYS,
    terminate_on_success: bool = True,
    **kwargs: Any,
) -> RobosuiteEnv:
    """Return one env.

    Args:
        index: Index of the env among all; unused, because object sizes are drawn once and are
            equal in all envs. Object poses are drawn at every reset.
        task: robosuite's name of the task.
        robot: robosuite's name of the robot.
        max_episode_steps: Time limit in control steps.
        keys: Observations, by robosuite's names.
        terminate_on_success: Whether success ends an episode.
        kwargs: Further arguments of ``robosuite.make``, for example ``reward_shaping``.
    """
    del index
    suite = importlib.import_module("robosuite")
    settings = {
        "has_renderer": False,
        "has_offscreen_renderer": False,
        "use_camera_obs": False,
        "hard_reset": False,
        "ignore_done": True,
        "control_freq": 20,
        "seed": 0,
        **kwargs,
    }
    env = suite.make(task, robots=robot, **settings)
    demonstrator = _lift if task == "Lift" else None
    return RobosuiteEnv(env, list(keys), max_episode_steps, terminate_on_success, demonstrator)


class RobosuiteEnv:
    """A robosuite env with the interface of the server."""

    def __init__(
        self, env: Any, keys: list[str], steps: int, ends: bool, demonstrator: Any
    ) -> None:
        self._env, self._keys, self._limit, self._ends = env, keys, steps, ends
        self._demonstrator = demonstrator
        self._obs = env.reset()
        self._upright = self._obs["robot0_eef_quat"]
        env.step(np.zeros(env.action_dim))  # triggers numba's compilation
        low, high = env.action_spec
        self.world: dict[str, Any] = {
            "obs": {
                key: {"shape": list(part.shape), "dtype": str(part.dtype)}
                for key, part in self._kept().items()
            },
            "act": {
                "shape": [len(low)],
                "low": np.asarray(low, dtype=float).tolist(),
                "high": np.asarray(high, dtype=float).tolist(),
                "reference": "delta",
            },
            "dt_s": 1.0 / env.control_freq,
            "max_episode_steps": steps,
            "metrics": ["success"],
            "demonstrates": demonstrator is not None,
        }
        self._steps = 0

    def reset(self, seed: int | None) -> dict[str, Any]:
        """Start an episode; the seeded generator is the only source of randomness."""
        if seed is not None:
            fresh = np.random.default_rng(seed)
            self._env.rng.bit_generator.state = fresh.bit_generator.state
        self._steps, self._obs = 0, self._env.reset()
        return self._kept()

    def step(self, act: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, float]]:
        """Take one control step."""
        self._obs, rew, _, _ = self._env.step(act)
        self._steps += 1
        success = bool(self._env._check_success())
        terminated = success and self._ends
        truncated = not terminated and self._steps >= self._limit
        return self._kept(), float(rew), terminated, truncated, {"success": float(success)}

    def demonstrate(self) -> Any:
        """Return the action of the task's demonstrator for the current state."""
        return self._demonstrator(self._env, self._obs, self._upright)

    def close(self) -> None:
        """Release the simulation."""
        self._env.close()

    def _kept(self) -> dict[str, Any]:
        """Return images unchanged, and numbers as float32."""
        parts = {key: np.asarray(self._obs[key]) for key in self._keys}
        return {k: p if p.dtype == np.uint8 else p.astype(np.float32) for k, p in parts.items()}


def _lift(env: Any, obs: Any, upright: Any) -> Any:
    """Return the action of Lift's demonstrator: above the cube, down, close, up.

    Args:
        env: Its controller moves the hand by 5 cm and rotates it by half a radian per step,
            where an element of the action is 1.
        obs: robosuite's observation.
        upright: (4,) xyzw, orientation of the hand to hold.
    """
    gap, grip = obs["cube_pos"] - obs["robot0_eef_pos"], -1.0
    near = 0.02 if gap[2] < -0.03 else 0.03  # the fingers leave room for an offset
    if env._check_grasp(gripper=env.robots[0].gripper, object_geoms=env.cube):
        move, grip = np.array([0.0, 0.0, 0.05]), 1.0
    elif np.linalg.norm(gap[:2]) > near:
        move = np.array([gap[0], gap[1], max(gap[2] + 0.05, 0.0)])
    else:
        move, grip = gap, (1.0 if gap[2] > -0.015 else -1.0)
    act = np.zeros(env.action_dim)
    act[:3], act[3:6] = move / 0.05, _rotation(obs["robot0_eef_quat"], upright) / 0.5
    act[-1] = grip
    return np.clip(act, -1.0, 1.0)


def _rotation(start: Any, end: Any) -> Any:
    """Return the small rotation vector (3,) between quaternions xyzw: twice the vector part."""
    v, w = -start[:3], start[3]
    vector = end[3] * v + w * end[:3] + np.cross(end[:3], v)
    return 2.0 * vector * np.sign(end[3] * w - end[:3] @ v)
