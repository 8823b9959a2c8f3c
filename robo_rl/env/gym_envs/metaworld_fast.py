"""Faster methods for Meta-World's env classes, with bit-identical results.

A step of Meta-World is five physics steps of some 20 µs each; name look-ups, redundant checks and
repeated computations in Python take most of the time. This module omits

- the 50 frames in which the hand moves home, in the first of the two runs of a reset. Only the
  random draws and body positions of that run have an effect.
- the same frames in the second run, if they start from the same state as at a previous reset. The
  cached result is copied.
- the forces after a step, unless success depends on contacts. In all other tasks, only the entry
  ``grasp_success`` of the info does, and it is always 0.
- look-ups by name, tests of rotation matrices, and arrays in place of single numbers.

The tests compare the results with the original classes. This module changes Meta-World's classes
and modules in place, so only worker processes may use it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import mujoco as _mujoco
import numpy as np
from metaworld.sawyer_xyz_env import SawyerXYZEnv

from robo_rl.env.gym_envs.metaworld_fast_math import use_fast_math

_mj: Any = _mujoco  # its type stubs are incomplete
_CONTACT_DECIDES = "SawyerStickPushEnvV3"
"""The only task that succeeds by contact; other tasks tell contacts in ``grasp_success`` alone."""

_HAND_DOWN = np.array([1.0, 0.0, 1.0, 0.0])  # quaternion of the mocap body that the hand follows


@cache
def use_fast_methods(cls: Any) -> None:
    """Replace the slow methods of a goal-observable env class, except those its task defines."""
    task = cls.__mro__[1]
    for name in _METHODS.keys() - own_methods(task):
        setattr(cls, name, _METHODS[name])
    if task.__name__ != _CONTACT_DECIDES:
        cls.touching_main_object = False
    cls._initialize_simulation = _initialise(task)
    cls._reset_hand = _reset_hand(task)
    use_fast_math(task.__module__)


def own_methods(task: Any) -> list[str]:
    """Return the methods that a task's class defines itself, which therefore stay as slow."""
    return [name for name in _METHODS if getattr(task, name) is not getattr(SawyerXYZEnv, name)]


class _Handles:
    """Views of an env's physics data, valid for the lifetime of the data."""

    def __init__(self, model: Any, data: Any) -> None:
        self.xpos, self._model = data.xpos, model
        self._bodies: dict[str, Any] = {}
        self.hand, self.right, self.left = map(self.body, ("hand", "rightclaw", "leftclaw"))
        self.tips = [
            data.site_xpos[model.site(f"{side}EndEffector").id] for side in ("right", "left")
        ]
        self.pads = [model.geom(f"{side}pad_geom").id for side in ("left", "right")]
        self.mocap_pos, self.mocap_quat, self.ctrl = data.mocap_pos, data.mocap_quat, data.ctrl
        self.forces_are_old = False
        self.first_run = False

    def body(self, name: str) -> Any:
        """Return a live view of the position (3,) of a body."""
        if name not in self._bodies:
            self._bodies[name] = self.xpos[self._model.body(name).id]
        return self._bodies[name]


def _initialise(task: Any) -> Callable[[Any], tuple[Any, Any]]:
    """Return an ``_initialize_simulation`` that compiles a task's model once and copies it."""
    compiled: list[Any] = []

    def initialise(env: Any) -> tuple[Any, Any]:
        if not compiled:
            compiled.append(task._initialize_simulation(env)[0])
        model = copy.copy(compiled[0])
        data = _mj.MjData(model)
        env.quick = _Handles(model, data)
        return model, data

    return initialise


def _reset_hand(task: Any) -> Callable[..., None]:
    """Return a ``_reset_hand`` with a cached result; it skips the motion in the first run."""
    start: list[Any] = []
    end: list[Any] = []

    def reset_hand(env: Any, steps: int = 50) -> None:
        here = [env.model.body_pos.tobytes(), np.asarray(env.hand_init_pos).tobytes(), steps]
        if env.quick.first_run:
            pass
        elif here == start:
            _mj.mj_copyData(env.data, env.model, end[0])
        else:
            _drive_hand_home(env, steps)
            if not end:
                end.append(_mj.MjData(env.model))
            _mj.mj_copyData(end[0], env.model, env.data)
            start[:] = here
        task._reset_hand(env, steps=0)  # the rest of the original method

    return reset_hand


def _drive_hand_home(env: Any, steps: int) -> None:
    env.quick.mocap_pos[:] = env.hand_init_pos
    env.quick.mocap_quat[:] = _HAND_DOWN
    env.quick.ctrl[:] = (-1.0, 1.0)
    _mj.mj_step(env.model, env.data, nstep=steps * env.frame_skip)


def _reset(env: Any, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
    env.quick.first_run = True
    env.curr_path_length = 0
    env.reset_model()
    env.quick.first_run = False
    obs, info = super(SawyerXYZEnv, env).reset()  # pyright: ignore[reportAttributeAccessIssue]
    env._prev_obs = obs[:18].copy()
    obs[18:36] = env._prev_obs
    return obs, info


def _step(env: Any, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
    quick = env.quick
    goal = quick.mocap_pos + np.clip(action[:3], -1, 1) * env.action_scale
    quick.mocap_pos[:] = goal.clip(env.mocap_low, env.mocap_high)
    quick.mocap_quat[:] = _HAND_DOWN
    quick.ctrl[:] = (action[-1], -action[-1])
    _mj.mj_step(env.model, env.data, nstep=env.frame_skip)
    _mj.mj_kinematics(env.model, env.data)
    quick.forces_are_old = True
    env.curr_path_length += 1
    space = env.sawyer_observation_space
    obs = env._get_obs().clip(space.low, space.high)
    env._last_stable_obs = obs
    rew, info = env.evaluate_state(obs, action)
    return obs, rew, False, env.curr_path_length == env.max_path_length, info


def _get_obs(env: Any) -> Any:
    frame = env._get_curr_obs_combined_no_goal()
    goal = env._get_pos_goal()
    if env._partially_observable:
        goal = np.zeros_like(goal)
    obs = np.concatenate((frame, env._prev_obs, goal))
    env._prev_obs = frame
    return obs


def _get_frame(env: Any) -> Any:
    """Return hand (3), gripper opening in 0.1 m (1), object positions and quaternions (14)."""
    quick, frame = env.quick, np.zeros(4 + env._obs_obj_max_len)
    frame[:3] = quick.hand
    gap = quick.right - quick.left
    frame[3] = min(max(math.sqrt(gap.dot(gap)) / 0.1, 0.0), 1.0)
    pos, quat = env._get_pos_objects(), env._get_quat_objects()
    for i in range(len(pos) // 3):
        frame[4 + 7 * i : 7 + 7 * i] = pos[3 * i : 3 * i + 3]
        frame[7 + 7 * i : 11 + 7 * i] = quat[4 * i : 4 * i + 4]
    return frame


def _touching_object(env: Any, object_geom_id: int) -> bool:
    """Return whether both pads press against the object."""
    if env.quick.forces_are_old:
        _mj.mj_forward(env.model, env.data)
        env.quick.forces_are_old = False
    contact, force = env.data.contact, env.data.efc_force
    pairs = contact.geom.tolist()
    for pad in env.quick.pads:
        rows = [row for row, pair in enumerate(pairs) if pad in pair and object_geom_id in pair]
        if not rows or not sum(force[contact.efc_address[rows]].tolist()) > 0:
            return False
    return True


def _tcp_center(env: Any) -> Any:
    right, left = env.quick.tips
    return (right + left) / 2.0


_METHODS: dict[str, Any] = {
    "reset": _reset,
    "step": _step,
    "_get_obs": _get_obs,
    "_get_curr_obs_combined_no_goal": _get_frame,
    "get_body_com": lambda env, name: env.quick.body(name),
    "get_endeff_pos": lambda env: env.quick.hand,
    "tcp_center": property(_tcp_center),
    "touching_object": _touching_object,
}
