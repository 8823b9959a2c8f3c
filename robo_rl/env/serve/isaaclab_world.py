"""Isaac Lab 3.x: manager-based and direct envs, on Newton without Isaac Sim, or in Isaac Sim.

``robo-rl env create isaaclab`` makes the interpreter. Observation groups keep their names; actions
have the limits of the env's action space, if it has any; there are no metrics.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

_SERVE: Any = importlib.import_module("robo_rl_serve")  # this folder's name in the simulator


def make_all(
    num_envs: int,
    task: str = "Isaac-Cartpole",
    physics: str = "newton_mjwarp",
    device: str = "cuda:0",
    overrides: Sequence[str] = (),
) -> IsaacLabEnvs:
    """Return B envs of one task.

    Args:
        num_envs: B.
        task: A registered Gymnasium id.
        physics: Isaac Lab's name of the engine; ``newton_mjwarp`` needs no Isaac Sim,
            ``isaacsim_physx`` starts it.
        device: Device of the simulation.
        overrides: Further settings as ``key=value``, see ``isaaclab_tasks.utils.parse_env_cfg``.
    """
    gym = importlib.import_module("gymnasium")
    importlib.import_module("isaaclab_tasks")
    app = importlib.import_module("isaaclab.app")
    parse = importlib.import_module("isaaclab_tasks.utils.parse_cfg").parse_env_cfg
    chosen = [f"physics={physics}", *overrides]
    cfg = parse(task, device=device, num_envs=num_envs, overrides=chosen)
    cfg.compute_final_obs = True
    launched = app.launch_simulation(cfg, {"headless": True, "visualizer": ["none"]})
    launched.__enter__()
    return IsaacLabEnvs(gym.make(task, cfg=cfg).unwrapped, launched)


class IsaacLabEnvs:
    """The envs; they reset themselves, with an episode's last observation in ``final_obs``."""

    def __init__(self, env: Any, launched: Any) -> None:
        self._env, self._launched = env, launched
        self._torch = importlib.import_module("torch")
        obs = self.reset(None)
        space = env.single_action_space
        self.step(np.zeros((env.num_envs, *space.shape), np.float32))  # compiles the kernels
        limited = bool(np.isfinite(space.low).all() and np.isfinite(space.high).all())
        limits = {"low": space.low.tolist(), "high": space.high.tolist()} if limited else {}
        self.world: dict[str, Any] = {
            "obs": _SERVE.obs_specs(obs),
            "act": {"shape": list(space.shape), **limits},
            "dt_s": float(env.step_dt),
            "max_episode_steps": int(env.max_episode_length),
            "metrics": [],
            "demonstrates": False,
        }

    def reset(self, seeds: Sequence[int] | None) -> dict[str, Any]:
        """Start a new episode in every env; the first seed seeds their common random stream."""
        with self._torch.no_grad():
            return _SERVE.flatten_obs(self._env.reset(seed=seeds[0] if seeds else None)[0])

    def restart(self, ids: Any) -> dict[str, Any]:
        """Start a new episode in the envs ids (n,); observation histories begin with zeros."""
        env = self._env
        rows = self._torch.as_tensor(ids, dtype=self._torch.int32, device=env.device)
        env._reset_idx(rows)
        env.scene.write_data_to_sim()
        env.sim.forward()
        manager = getattr(env, "observation_manager", None)
        return _SERVE.flatten_obs(manager.compute() if manager else env._compute_observations())

    def step(self, act: Any) -> dict[str, Any]:
        """Take one control step."""
        with self._torch.no_grad():  # in inference mode, tasks could not reset their tensors
            obs, rew, ended, cut, extras = self._env.step(self._torch.from_numpy(act))
        obs, terminated, truncated = _SERVE.flatten_obs(obs), ended.cpu().numpy(), cut.cpu().numpy()
        over, next_obs = terminated | truncated, obs
        if over.any():
            final = _SERVE.flatten_obs(extras["final_obs"])
            next_obs = {name: part.copy() for name, part in obs.items()}
            for name, part in next_obs.items():
                part[over] = final[name][over]
        return {
            "obs": obs,
            "next_obs": next_obs,
            "rew": rew.cpu().numpy(),
            "terminated": terminated.copy(),
            "truncated": truncated & ~terminated,
            "metrics": {},
        }

    def close(self) -> None:
        """Release the simulation and its app."""
        self._env.close()
        self._launched.__exit__(None, None, None)
