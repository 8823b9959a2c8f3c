"""Any Gymnasium id as a ``VecEnv`` with open-loop rollouts, through a pool of worker processes.

Shapes: B envs, T steps of an open-loop sequence, A act_dim. A rollout is one message to and from
each worker. A worker makes single envs and resets an env in the step that ends its episode, so
Gymnasium's autoreset modes do not apply. Gymnasium's ``TimeLimit`` gives ``truncated``, with the
true last observation in ``next_obs``.
"""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field

from robo_rl.api.cameras import FixedCameras
from robo_rl.api.env import check_groups
from robo_rl.config.fingerprint import Fingerprint
from robo_rl.config.models import ConfigModel
from robo_rl.config.registry import missing_extra
from robo_rl.core.errors import SpecError
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.env.gym_envs.fingerprint import gym_fingerprint
from robo_rl.env.gym_envs.pool import GymPool
from robo_rl.env.gym_envs.steps import block_steps, cut_first_step
from robo_rl.env.workers.pooled_env import PooledEnv, env_seed
from robo_rl.env.workers.shared_memory import EnvInterface, EnvRequest

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from robo_rl.api.env import Step


class PoolConfig(ConfigModel):
    """Settings of the worker processes.

    Args:
        workers: Number of processes, at most the number of envs; 0 starts one per CPU.
        step_timeout_s: A worker that finishes no env step for this long is replaced.
        start_timeout_s: Time for a worker to import its packages and make its envs.

    ``workers`` counts as a setting with effect: envs that draw from the global generators after
    their first episode share a stream with the others of their worker (``GlobalGenerators``).
    """

    workers: int = Field(default=0, ge=0)
    step_timeout_s: float = Field(default=30.0, gt=0)
    start_timeout_s: float = Field(default=120.0, gt=0)

    without_effect: ClassVar[tuple[str, ...]] = ("step_timeout_s", "start_timeout_s")


class GymEnvConfig(PoolConfig, FixedCameras):
    """The Gymnasium env and its settings; ``PoolConfig`` has those of the workers.

    Args:
        id: Name for ``gymnasium.make``.
        kwargs: Further arguments of ``gymnasium.make``.
        max_episode_steps: Time limit instead of the env's own; required where it has none.
        import_module: Module that registers the env, imported in the workers.
        cameras: For an env that runs on MuJoCo, see ``FixedCameras``.
    """

    id: str
    kwargs: dict[str, Any] = Field(default_factory=dict)
    max_episode_steps: int | None = Field(default=None, gt=0)
    import_module: str = ""


class GymEnv(PooledEnv[GymPool]):
    """B Gymnasium envs of one id as a ``VecEnv`` and ``OpenLoop``, on the CPU.

    A Box observation is ``state``. A Dict of Boxes keeps its names; characters other than
    letters, digits, _ and - become _ (``agent/pos`` is ``agent_pos``). A Box of shape () has
    shape (1,). uint8 stays uint8, and every other dtype becomes float32. Actions are clipped to
    the action space. ``success`` or ``is_success`` of the info is a boolean, or exactly 0 or 1.
    Seeds are as in ``PooledEnv``. They also seed ``random`` and ``numpy.random``. Each env has its
    own stream of both if it draws from them in its first episode; see ``GlobalGenerators``.

    A worker that dies or hangs is replaced, and its envs begin new episodes. Their step (in a
    rollout, the first) has ``valid`` False, ``truncated`` True, the previous observation as
    ``next_obs``, and 1 in the metric ``worker_restarts``; other envs are unaffected. A step with
    an observation or reward that is not finite in float32 has the same flags, without the metric.
    The attribute ``worker_restarts`` counts the workers replaced so far.

    Args:
        cfg: See ``GymEnvConfig``.
        num_envs: B.

    Raises:
        PluginError: No such env, or it cannot be made.
        SpecError: Its spaces are not Boxes.
        ConfigError: It has no time limit and none was given, or two names of observations become
            one.
        DeviceError: gymnasium is not installed, or there is too little shared memory.
    """

    Config = GymEnvConfig
    begins = "reset_obs"

    @staticmethod
    def fingerprint(cfg: GymEnvConfig) -> Fingerprint:
        """Return the fingerprint of the id's package, the env's class, and files in ``kwargs``.

        Raises:
            PluginError: The modules that register the id take too long to import.
        """
        return gym_fingerprint(cfg.id, cfg.import_module, cfg.kwargs)

    def __init__(self, cfg: GymEnvConfig, num_envs: int) -> None:
        if importlib.util.find_spec("gymnasium") is None:  # only the workers need gymnasium
            error = ModuleNotFoundError("No module named 'gymnasium'", name="gymnasium")
            raise missing_extra(error) or error
        self.cfg = cfg
        pool = GymPool(
            EnvRequest(
                cfg.id,
                cfg.kwargs,
                cfg.max_episode_steps,
                cfg.import_module,
                cfg.views,
            ),
            num_envs,
            min(cfg.workers or usable_cpus(), num_envs),
            step_timeout_s=cfg.step_timeout_s,
            start_timeout_s=cfg.start_timeout_s,
        )
        super().__init__(pool, num_envs)
        self._resting: NDArray[np.bool_] = np.zeros(num_envs, dtype=np.bool_)
        self.dt_s, self.max_episode_steps = pool.world.dt_s, pool.world.max_episode_steps
        self.obs_spec, self.act_spec = _obs_spec(pool.world), _act_spec(pool.world)

    def reset_groups(self, size: int, seed: int) -> dict[str, Tensor]:
        """Start a new episode in every env, with one seed per group; see ``Groupable``.

        Raises:
            ConfigError: The envs do not form whole groups.
            PluginError: An env raised, or its worker keeps dying.
        """
        check_groups(size, self.num_envs)
        self._seed = seed
        return self._reset([env_seed(seed, i // size) for i in range(self.num_envs)])

    def step(self, act: Tensor) -> Step:
        """Apply act (B, A) for one step; see ``rollout``."""
        return self.rollout(act.unsqueeze(1))[0]

    def rollout(self, act: Tensor, *, frames: int | None = None) -> list[Step]:
        """Apply act (B, T, A) open loop; return T steps. An env waits after its episode's end.

        ``frames`` is that of ``OpenLoop``; more than one renders all. Images that the env itself
        observes are part of every step.

        Raises:
            SpecError: act has another shape.
            PluginError: An env raised and needs a reset, or its worker keeps dying.
        """
        self._check(act)
        self._pool.write_act(act.detach().cpu().numpy(), self._resting)
        before, self._obs = self._obs, {}  # after an error below, the envs need a reset
        lost = self._pool.command("rollout", steps=act.shape[1], frames=frames)
        block = self._pool.block(act.shape[1])
        if lost:
            ids, fresh = self._begin_anew(lost)
            cut_first_step(block, ids, fresh)
        result = block_steps(block, before)
        self._obs = result[-1].obs
        return result

    def _reset(self, seeds: list[int] | None) -> dict[str, Tensor]:
        self._resting[:] = False
        return super()._reset(seeds)

    def _check(self, act: Tensor) -> None:
        self._demand_reset()
        if act.shape[0] == self.num_envs and act.ndim == 3 and act.shape[1] > 0:
            self.act_spec.validate_array("act", act, batch_axes=2)
            return
        expected = (self.num_envs, "T ≥ 1", *self.act_spec.shape)
        raise SpecError("'act' does not fit", expected=expected, found=tuple(act.shape))


def _obs_spec(interface: EnvInterface) -> ObsSpec:
    items: dict[str, TensorSpec] = {}
    for name, (shape, dtype) in interface.obs.items():
        low, high = interface.obs_limits.get(name, ((), ()))
        items[name] = TensorSpec(shape=shape, dtype=dtype, low=low, high=high)
    return ObsSpec(items=items)


def _act_spec(interface: EnvInterface) -> ActSpec:
    return ActSpec(
        shape=(interface.act_dim,),
        low=interface.act_low,
        high=interface.act_high,
        rate_hz=1.0 / interface.dt_s,
    )


def usable_cpus() -> int:
    """Return the number of CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # a container or a job may have fewer than the machine
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
