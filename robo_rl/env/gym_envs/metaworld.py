"""Meta-World's 50 manipulation tasks of a Sawyer arm, as a ``VecEnv`` with demonstrations.

Shapes: B envs.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from robo_rl.api.cameras import FixedCameras
from robo_rl.config.fingerprint import Fingerprint, versions_of
from robo_rl.config.registry import missing_extra
from robo_rl.core.spec import ObsSpec
from robo_rl.env.gym_envs.env import GymEnv, GymEnvConfig, PoolConfig

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from robo_rl.env.gym_envs.scripted_expert import ScriptedExpert

_AXES = "xyz"
_FRAME = (
    *(f"hand_{axis}" for axis in _AXES),
    "gripper_opening",
    *(
        f"object{number}_{part}"
        for number in (1, 2)
        for part in (*_AXES, *(f"quat_{i}" for i in range(4)))
    ),
)
OBS_NAMES = (*_FRAME, *(f"previous_{name}" for name in _FRAME), *(f"goal_{axis}" for axis in _AXES))
PROPRIO = "proprio"
"""Item of what the robot measures of itself: hand and gripper opening."""
ACT_NAMES = (*(f"hand_d{axis}" for axis in _AXES), "gripper")
ACT_REFERENCE = "delta,delta,delta,absolute"
"""The hand is displaced; the gripper's effort is no change of the last one."""


class MetaWorldConfig(PoolConfig, FixedCameras):
    """The task and its reward.

    Args:
        task: Any of Meta-World's v3 tasks, for example ``push-v3``.
        reward: ``success`` is 1 in the first successful step of an episode and 0 in all others.
            ``dense`` is a tenth of the difference between Meta-World's reward and its maximum.
            It is between -1 and 0 per step and 0 at success, so that an episode that ends with
            success loses no reward.
        terminate_on_success: Whether success ends an episode.
        max_episode_steps: Time limit in env steps of 12.5 ms.
        noise_correlation: Correlation of the demonstrator's noise from one env step to the next.
        cameras: See ``FixedCameras``; Meta-World's are ``corner``, ``corner2``, ``corner3``,
            ``corner4``, ``topview``, ``behindGripper`` and ``gripperPOV``.
    """

    task: str
    reward: Literal["success", "dense"] = "success"
    terminate_on_success: bool = True
    max_episode_steps: int = Field(default=200, gt=0)
    noise_correlation: float = Field(default=0.0, ge=0.0, lt=1.0)

    without_effect: ClassVar[tuple[str, ...]] = ("workers",)  # each env has its own generator


class MetaWorld(GymEnv):
    """B envs of one Meta-World task in a pool of processes; see ``GymEnv``.

    Every reset draws the goal and the object positions from the env's own stream, which depends
    on its seed alone. Meta-World's benchmarks differ: their training and evaluation share a list
    of 50 goals. Here, evaluation goals are never training goals.

    ``state`` (B, 39) has hand (m), gripper opening (1 is open, about 0.1 m), position (m) and
    quaternion of up to two objects, the same values of the previous step, and the goal (m). The
    order of a quaternion is the task's own, xyzw or wxyz; missing objects are zeros. Actions
    (B, 4) are hand displacements in cm per step and the gripper's effort, positive to close, all
    in [-1, 1].

    With cameras there are images, and ``proprio`` (B, 4), the first four elements of ``state``. A
    policy that sees images reads ``proprio`` and no pose of an object.

    Args:
        cfg: See ``MetaWorldConfig``.
        num_envs: B.

    Raises:
        ConfigError: No task of that name.
        DeviceError: Meta-World is not installed, or there is too little shared memory.
    """

    Config = MetaWorldConfig

    @staticmethod
    def fingerprint(cfg: Any) -> Fingerprint:
        """Return the fingerprint of Meta-World, its scenes, meshes and dependencies included."""
        del cfg
        return Fingerprint(("metaworld",), versions_of(["metaworld", "gymnasium", "mujoco"]))

    def __init__(self, cfg: MetaWorldConfig, num_envs: int) -> None:
        if importlib.util.find_spec("metaworld") is None:  # only the workers need it
            error = ModuleNotFoundError("No module named 'metaworld'", name="metaworld")
            raise missing_extra(error) or error
        kwargs = cfg.model_dump(include={"task", "reward", "terminate_on_success"})
        kwargs["proprio"] = bool(cfg.cameras)
        pool = cfg.model_dump(include=set(PoolConfig.model_fields))
        request = GymEnvConfig(
            id="robo_rl/MetaWorld-v3",
            import_module="robo_rl.env.gym_envs.metaworld_factory",
            max_episode_steps=cfg.max_episode_steps,
            kwargs=kwargs,
            cameras=cfg.cameras,
            **pool,
        )
        super().__init__(request, num_envs)
        self.task_name, self._memory = cfg.task, cfg.noise_correlation
        items = dict(self.obs_spec.items)
        for name, names in (("state", OBS_NAMES), (PROPRIO, OBS_NAMES[:4])):
            if name in items:
                items[name] = items[name].model_copy(update={"names": names})
        self.obs_spec = ObsSpec(items=items)
        said = {"names": ACT_NAMES, "reference": ACT_REFERENCE}
        self.act_spec = self.act_spec.model_copy(update=said)

    def rest(self, envs: Tensor) -> None:
        """Let envs rest until the next reset, since each has its own random stream."""
        self._resting = envs.numpy().copy()

    @property
    def view(self) -> dict[str, Tensor]:
        """Return the current observation of every env, for the demonstrator."""
        return self._obs

    def expert(self, num_envs: int, generator: torch.Generator, noise: float) -> ScriptedExpert:
        """Return Meta-World's scripted policy for the task; see ``ScriptedExpert``."""
        from robo_rl.env.gym_envs.scripted_expert import ScriptedExpert

        policy = _scripted_policy(self.task_name, num_envs)
        return ScriptedExpert(policy, num_envs, generator, noise, self._memory)


def _scripted_policy(task: str, num_envs: int) -> Callable[[Tensor], Tensor]:
    """Return Meta-World's policy of a task, from observations (B, 39) to actions (B, 4)."""
    import torch
    from metaworld.policies import ENV_POLICY_MAP

    policies: list[Any] = [ENV_POLICY_MAP[task]() for _ in range(num_envs)]

    def act(state: Tensor) -> Tensor:
        rows = state.numpy().astype(np.float64)
        with warnings.catch_warnings():  # about gains with which it acts beyond the limits
            warnings.simplefilter("ignore")
            acts = [policy.get_action(row) for policy, row in zip(policies, rows, strict=True)]
        return torch.from_numpy(np.stack(acts)).float()

    return act
