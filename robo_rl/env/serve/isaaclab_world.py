"""Isaac Lab 3.x: manager-based and direct envs, on Newton without Isaac Sim, or in Isaac Sim.

``robo-rl env create isaaclab`` makes the interpreter. Observation groups keep their names; actions
have the limits of the env's action space, if it has any, or else ``act_limit``. The metric
``success`` exists where a manager-based task has a termination term of that name. Assets come from
NVIDIA's server, or from the folder in the environment variable ISAACSIM_ASSET_ROOT.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

_SERVE: Any = importlib.import_module("robo_rl_serve")  # this folder's name in the simulator


def make_all(
    num_envs: int,
    task: str = "Isaac-Cartpole",
    physics: str = "newton_mjwarp",
    device: str = "",
    overrides: Sequence[str] = (),
    act_limit: float = 0.0,
) -> IsaacLabEnvs:
    """Return B envs of one task.

    Args:
        num_envs: B.
        task: A registered Gymnasium id.
        physics: Isaac Lab's name of the engine; ``newton_mjwarp`` needs no Isaac Sim,
            ``isaacsim_physx`` starts it.
        device: ``cpu`` or ``cuda:0``; empty selects a GPU if there is one.
        overrides: Further settings as ``key=value``, see ``isaaclab_tasks.utils.parse_env_cfg``.
            ``env.seed=7`` seeds what the task draws once, before the first episode, such as
            friction: equal in all workers. Without one it is that of the task, or 0.
        act_limit: Bound of the absolute value of actions in a task without limits, as most
            manager-based ones are. 0 leaves actions unlimited, and no policy can be trained from
            scratch.
    """
    torch = importlib.import_module("torch")
    device = device or ("cuda:0" if torch.cuda.is_available() else "cpu")
    gym = importlib.import_module("gymnasium")
    importlib.import_module("isaaclab_tasks")
    app = importlib.import_module("isaaclab.app")
    parse = importlib.import_module("isaaclab_tasks.utils.parse_cfg").parse_env_cfg
    chosen = [f"physics={physics}", *overrides]
    cfg = parse(task, device=device, num_envs=num_envs, overrides=chosen)
    cfg.compute_final_obs = True
    cfg.seed = 0 if cfg.seed is None else cfg.seed
    launched = app.launch_simulation(cfg, {"headless": True, "visualizer": ["none"]})
    launched.__enter__()
    try:
        env = gym.make(task, cfg=cfg).unwrapped
    except FileNotFoundError as error:
        raise _SERVE.RequestError(
            "config",
            f"an asset of {task} cannot be loaded: {error}",
            hint="connect to the internet, or name a folder of assets in ISAACSIM_ASSET_ROOT",
        ) from error
    return IsaacLabEnvs(env, launched, act_limit)


class IsaacLabEnvs:
    """The envs; they reset themselves, with an episode's last observation in ``final_obs``."""

    def __init__(self, env: Any, launched: Any, act_limit: float) -> None:
        self._env, self._launched = env, launched
        self._torch = importlib.import_module("torch")
        space: Any = getattr(env, "single_action_space", None)
        if not hasattr(space, "low"):
            raise _SERVE.RequestError(
                "config", "the actions of this task are not numbers of one agent", found=space
            )
        self._observations: Any = getattr(env, "observation_manager", None)
        self._terminations: Any = getattr(env, "termination_manager", None)
        ends = self._terminations
        self._tells_success = ends is not None and "success" in ends.active_terms
        obs = self.reset(None)
        if self._observations is not None:
            self._observe_before_resets()
        self.step(np.zeros((env.num_envs, *space.shape), np.float32))  # compiles the kernels
        limited = bool(np.isfinite(space.low).all() and np.isfinite(space.high).all())
        own = {"low": space.low.tolist(), "high": space.high.tolist()}
        limits = own if limited else _SERVE.act_limits(space.shape[0], act_limit)
        self.world: dict[str, Any] = {
            "obs": _SERVE.obs_specs(obs),
            "act": {"shape": list(space.shape), **limits},
            "dt_s": float(env.step_dt),
            "max_episode_steps": int(env.max_episode_length),
            "metrics": ["success"] if self._tells_success else [],
            "demonstrates": False,
        }

    def reset(self, seeds: Sequence[int] | None) -> dict[str, Any]:
        """Start a new episode in every env; the first seed seeds their common random stream."""
        with self._torch.no_grad():
            return _SERVE.flatten_obs(self._env.reset(seed=seeds[0] if seeds else None)[0])

    def restart(self, ids: Any) -> dict[str, Any]:
        """Start a new episode in the envs ids (n,)."""
        env = self._env
        rows = self._torch.as_tensor(ids, dtype=self._torch.int32, device=env.device)
        env._reset_idx(rows)
        env.scene.write_data_to_sim()
        env.sim.forward()
        obs = self._observe() if self._observations else env._compute_observations()
        return _SERVE.flatten_obs(obs)

    def step(self, act: Any) -> dict[str, Any]:
        """Take one control step."""
        with self._torch.no_grad():  # in inference mode, tasks could not reset their tensors
            obs, rew, ended, cut, extras = self._env.step(self._torch.from_numpy(act))
        obs = _SERVE.flatten_obs(obs)
        flags = ended.cpu().numpy(), cut.cpu().numpy()
        terminated, truncated = _SERVE.split_ends(self._env.cfg, *flags)
        metrics: dict[str, Any] = {}
        if self._tells_success:
            metrics["success"] = self._terminations.get_term("success").float().cpu().numpy()
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
            "terminated": terminated,
            "truncated": truncated,
            "metrics": metrics,
        }

    def _observe(self) -> dict[str, Any]:
        """Return observations whose histories end now; the env's own histories do not change."""
        manager = self._observations
        kept = manager._group_obs_term_history_buffer, manager._group_obs_term_delay_buffer
        try:
            (
                manager._group_obs_term_history_buffer,
                manager._group_obs_term_delay_buffer,
            ) = copy.deepcopy(kept)
            return manager.compute(update_history=True)
        finally:
            manager._group_obs_term_history_buffer, manager._group_obs_term_delay_buffer = kept

    def _observe_before_resets(self) -> None:
        """Compute ``final_obs`` before a reset; Isaac Lab's own lacks the last sample."""
        env, reset = self._env, self._env._reset_idx
        env.cfg.compute_final_obs = False

        def reset_after(ids: Any) -> None:
            env.extras["final_obs"] = self._observe()
            reset(ids)

        env._reset_idx = reset_after

    def close(self) -> None:
        """Release the simulation and its app."""
        self._env.close()
        self._launched.__exit__(None, None, None)
