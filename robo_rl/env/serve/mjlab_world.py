"""mjlab's tasks: manager-based envs on MuJoCo Warp, on a GPU or, for a few envs, on the CPU.

``robo-rl env create mjlab`` makes the interpreter. Observation groups keep their names. Actions
have the limits ``act_limit``. The metric ``success`` exists where a command of the task has the
metric ``at_goal``, or where the task has a termination term ``success``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

_SERVE: Any = importlib.import_module("robo_rl_serve")  # this folder's name in the simulator


def make_all(
    num_envs: int,
    task: str = "Mjlab-Lift-Cube-Yam",
    device: str = "",
    act_limit: float = 0.0,
    episode_s: float = 0.0,
    seed: int = 0,
) -> MjlabEnvs:
    """Return B envs of one task.

    Args:
        num_envs: B.
        task: A registered name, for example ``Mjlab-Velocity-Flat-Unitree-Go1``.
        device: ``cpu`` or ``cuda:0``; empty selects a GPU if there is one.
        act_limit: Bound of the absolute value of actions, which mjlab leaves unlimited. 0 leaves
            them so, and no policy can be trained from scratch.
        episode_s: Length of an episode in s; 0 keeps the task's own.
        seed: Seed of what the task draws once, before the first episode, such as friction: equal
            in all workers.
    """
    torch = importlib.import_module("torch")
    _define_missing_operators(torch)
    importlib.import_module("mjlab.tasks")
    registry = importlib.import_module("mjlab.tasks.registry")
    if task not in registry.list_tasks():
        expected = ", ".join(registry.list_tasks())
        raise _SERVE.RequestError("config", "no such mjlab task", expected=expected, found=task)
    cfg = registry.load_env_cfg(task)
    cfg.scene.num_envs, cfg.auto_reset, cfg.seed = num_envs, False, seed
    cfg.episode_length_s = episode_s or cfg.episode_length_s
    device = device or ("cuda:0" if torch.cuda.is_available() else "cpu")
    env = importlib.import_module("mjlab.envs").ManagerBasedRlEnv(cfg=cfg, device=device)
    return MjlabEnvs(env, torch, act_limit)


class MjlabEnvs:
    """The envs without mjlab's automatic resets, which would hide an episode's last observation."""

    def __init__(self, env: Any, torch: Any, act_limit: float) -> None:
        self._env, self._torch = env, torch
        self._success = _success_reader(env)
        obs = self.reset(None)
        size = int(env.action_manager.total_action_dim)
        self.step(np.zeros((env.num_envs, size), np.float32))  # compiles the kernels
        self.world: dict[str, Any] = {
            "obs": _SERVE.obs_specs(obs),
            "act": {"shape": [size], **_SERVE.act_limits(size, act_limit)},
            "dt_s": float(env.step_dt),
            "max_episode_steps": int(env.max_episode_length),
            "metrics": ["success"] if self._success else [],
            "demonstrates": False,
        }

    def reset(self, seeds: Sequence[int] | None) -> dict[str, Any]:
        """Start a new episode in every env; the first seed seeds their common random stream."""
        return _SERVE.flatten_obs(self._env.reset(seed=seeds[0] if seeds else None)[0])

    def restart(self, ids: Any) -> dict[str, Any]:
        """Start a new episode in the envs ids (n,)."""
        rows = self._torch.as_tensor(ids, dtype=self._torch.int64, device=self._env.device)
        return _SERVE.flatten_obs(self._env.reset(env_ids=rows)[0])

    def step(self, act: Any) -> dict[str, Any]:
        """Take one control step."""
        successor, rew, terminated, truncated, _ = self._env.step(self._torch.from_numpy(act))
        next_obs = _SERVE.flatten_obs(successor)
        flags = terminated.cpu().numpy(), truncated.cpu().numpy()
        ended, cut = _SERVE.split_ends(self._env.cfg, *flags)
        won = {"success": self._success().float().clone().cpu().numpy()} if self._success else {}
        step = {"next_obs": next_obs, "rew": rew.cpu().numpy(), "metrics": won}
        step |= {"terminated": ended, "truncated": cut}
        obs, over = next_obs, np.flatnonzero(ended | cut)
        if len(over):
            fresh = self.restart(over)
            obs = {name: part.copy() for name, part in next_obs.items()}
            for name, part in obs.items():
                part[over] = fresh[name][over]
        return {**step, "obs": obs}

    def close(self) -> None:
        """Release the simulation."""
        self._env.close()


def _success_reader(env: Any) -> Callable[[], Any] | None:
    """Return what reads the success (B,) of the last step; None for a task without success."""
    ends, commands = env.termination_manager, env.command_manager
    if "success" in ends.active_terms:
        return lambda: ends.get_term("success")
    terms = [commands.get_term(name) for name in commands.active_terms]
    at_goal = [term.metrics for term in terms if "at_goal" in term.metrics]
    return (lambda: at_goal[0]["at_goal"]) if at_goal else None


def _define_missing_operators(torch: Any) -> None:
    """Define operators so that mjlab can import a torchvision built for another torch."""
    with suppress(RuntimeError):  # it is already defined
        library = torch.library.Library("torchvision", "DEF")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _KEPT.append(library)


_KEPT: list[Any] = []
