"""Gymnasium-Robotics' Fetch tasks with a block, as a ``VecEnv`` with demonstrations.

Shapes: B envs.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from robo_rl.config.fingerprint import Fingerprint, versions_of
from robo_rl.config.registry import missing_extra
from robo_rl.core.spec import ObsSpec
from robo_rl.env.gym_envs.env import GymEnv, GymEnvConfig, PoolConfig

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from robo_rl.env.gym_envs.scripted_expert import ScriptedExpert

_AXES = "xyz"
OBS_NAMES = (
    *(f"hand_{axis}" for axis in _AXES),
    *(f"object_{axis}" for axis in _AXES),
    *(f"object_from_hand_{axis}" for axis in _AXES),
    *("right_finger", "left_finger"),
    *(f"object_euler_{axis}" for axis in _AXES),
    *(f"object_from_hand_v{axis}" for axis in _AXES),
    *(f"object_w{axis}" for axis in _AXES),
    *(f"hand_v{axis}" for axis in _AXES),
    *("right_finger_v", "left_finger_v"),
    *(f"goal_{axis}" for axis in _AXES),
)
ACT_NAMES = (*(f"hand_d{axis}" for axis in _AXES), "gripper")


class GymRoboticsConfig(PoolConfig):
    """The task and its reward.

    Args:
        task: ``FetchPush-v4`` or ``FetchPickAndPlace-v4``.
        reward: ``success`` is 1 in the first successful step of an episode and 0 in all others.
            ``dense`` is minus twice the distance (m) from block to goal, between -1 and 0 per step
            and 0 at success, so that an episode that ends with success loses no reward.
        terminate_on_success: Whether success ends an episode.
        max_episode_steps: Time limit in env steps of 40 ms.
        noise_correlation: Correlation of the demonstrator's noise from one env step to the next.
    """

    task: Literal["FetchPush-v4", "FetchPickAndPlace-v4"] = "FetchPush-v4"
    reward: Literal["success", "dense"] = "success"
    terminate_on_success: bool = True
    max_episode_steps: int = Field(default=50, gt=0)
    noise_correlation: float = Field(default=0.0, ge=0.0, lt=1.0)

    without_effect: ClassVar[tuple[str, ...]] = ("workers",)  # each env has its own generator


class GymRobotics(GymEnv):
    """B envs of one Fetch task in a pool of processes; see ``GymEnv``.

    An episode is a success once the block is within 5 cm of the goal. Gymnasium-Robotics never
    ends an episode before its time limit, and its users often count the last step alone. Block
    and goal are drawn independently, so the block begins at the goal in some episodes.

    ``state`` (B, 28) has the observation of Gymnasium-Robotics and the goal (m). Positions are in
    m, velocities in m or rad per step, those of the block's centre relative to the hand. Actions
    (B, 4) are hand displacements in units of 5 cm and the gripper's effort, positive to open, all
    in [-1, 1]. In ``FetchPush-v4`` the gripper stays closed.

    Args:
        cfg: See ``GymRoboticsConfig``.
        num_envs: B.

    Raises:
        DeviceError: Gymnasium-Robotics is not installed, or there is too little shared memory.
    """

    Config = GymRoboticsConfig

    @staticmethod
    def fingerprint(cfg: Any) -> Fingerprint:
        """Return the fingerprint of Gymnasium-Robotics, its scenes and dependencies included."""
        del cfg
        names = ["gymnasium-robotics", "gymnasium", "mujoco"]
        return Fingerprint(("gymnasium_robotics",), versions_of(names))

    def __init__(self, cfg: GymRoboticsConfig, num_envs: int) -> None:
        if importlib.util.find_spec("gymnasium_robotics") is None:  # only the workers need it
            name = "gymnasium_robotics"
            error = ModuleNotFoundError(f"No module named '{name}'", name=name)
            raise missing_extra(error) or error
        request = GymEnvConfig(
            id="robo_rl/GymRobotics-v0",
            import_module="robo_rl.env.gym_envs.gym_robotics_factory",
            max_episode_steps=cfg.max_episode_steps,
            kwargs=cfg.model_dump(include={"task", "reward", "terminate_on_success"}),
            **cfg.model_dump(include=set(PoolConfig.model_fields)),
        )
        super().__init__(request, num_envs)
        self.task_name, self._memory = cfg.task, cfg.noise_correlation
        state = self.obs_spec.items["state"].model_copy(update={"names": OBS_NAMES})
        self.obs_spec = ObsSpec(items={"state": state})
        self.act_spec = self.act_spec.model_copy(update={"names": ACT_NAMES, "reference": "delta"})

    @property
    def view(self) -> dict[str, Tensor]:
        """Return the current observation of every env, for the demonstrator."""
        return self._obs

    def expert(self, num_envs: int, generator: torch.Generator, noise: float) -> ScriptedExpert:
        """Return our scripted policy for the task; see ``fetch_policies``."""
        from robo_rl.env.gym_envs.fetch_policies import POLICIES
        from robo_rl.env.gym_envs.scripted_expert import ScriptedExpert

        return ScriptedExpert(POLICIES[self.task_name], num_envs, generator, noise, self._memory)
