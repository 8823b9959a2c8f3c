"""Reach a point with the end effector: the smallest task, for first experiments.

Shapes: B envs. The goal is a point in the world, drawn at reset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from robo_rl import Reset, TensorSpec
from robo_rl_tasks import rewards
from robo_rl_tasks.expert import ArmExpert, ArmExpertConfig
from robo_rl_tasks.kinematics.chain import KinematicChain
from robo_rl_tasks.kinematics.joints import arm_indices
from robo_rl_tasks.poses import away_from, uniform
from robo_rl_tasks.scene import add_marker, tabletop
from robo_rl_tasks.tabletop_task import TabletopConfig, TabletopTask

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from robo_rl import SimView

GOAL = "goal_pos"
REACH_SCALE_M = 0.1
START_MARGIN = 1.1
"""Smallest distance of a goal from the hand at the start, in ``success_m``."""


class ReachExpertConfig(ArmExpertConfig):
    """Settings of ``ReachExpert``.

    Args:
        perception_noise_m: Standard deviation of the perceived goal position at noise 1, per axis.
    """

    perception_noise_m: float = 0.035


class ReachConfig(TabletopConfig):
    """Settings of ``Reach`` besides those of ``TabletopConfig``.

    Args:
        success_m: Distance at which the goal counts as reached.
        goal_low: Lower corner of the box of goals in the world, m.
        goal_high: Upper corner of the box of goals in the world, m.
        expert: Settings of the scripted demonstrator.
    """

    success_m: float = Field(default=0.02, gt=0)
    goal_low: tuple[float, float, float] = (0.35, -0.3, 0.1)
    goal_high: tuple[float, float, float] = (0.65, 0.3, 0.5)
    start_noise: float = Field(default=0.05, ge=0)
    """Standard deviation of the arm joints at reset, rad."""
    episode_s: float = Field(default=2.5, gt=0)
    """Time limit of an episode."""
    expert: ReachExpertConfig = ReachExpertConfig()


class Reach(TabletopTask[ReachConfig]):
    """The task of reaching a point with the end effector; the gripper stays closed.

    Args:
        cfg: Settings.
    """

    Config = ReachConfig
    weights: ClassVar = {"reach": 0.1}

    def __init__(self, cfg: ReachConfig) -> None:
        super().__init__(cfg, holds_m=0.0)
        self._chain = KinematicChain(self.robot, tuple(joint.name for joint in self.arm))

    def scene(self) -> Any:
        """Return the scene: the robot, a table and a marker of the goal."""
        spec = tabletop(self.robot)
        add_marker(spec, GOAL, [[0.0, 0.0, 0.0, 0.01, 0.01, 0.01]])
        return spec

    def reset(self, num: int, generator: torch.Generator) -> Reset:
        """Draw the arm's joints about its start, and the goal in its box, away from the hand.

        If the whole box is near the hand, the goal is the farthest corner, and episodes may start
        with success.
        """
        import torch

        qpos = self._start(num, generator)
        low, high = torch.tensor(self.cfg.goal_low), torch.tensor(self.cfg.goal_high)
        drawn = uniform(low, high, num, generator)
        hand = self._chain.forward(qpos[:, arm_indices(self.robot)]).pos
        goal = away_from(drawn, hand, START_MARGIN * self.cfg.success_m, low, high)
        return Reset(qpos=qpos, qvel=torch.zeros_like(qpos), goal={GOAL: goal})

    def success(self, view: SimView) -> Tensor:
        """Return whether the end effector is within ``success_m`` of the goal, (B,) bool."""
        return self._distance(view) <= self.cfg.success_m

    def expert(self, num_envs: int, generator: torch.Generator, noise: float = 0.0) -> ReachExpert:
        """Return a scripted demonstrator of num_envs envs."""
        return ReachExpert(self, num_envs, generator, noise)

    def _distance(self, view: SimView) -> Tensor:
        return rewards.distance(view.sensor("ee_pos"), view.goal[GOAL])

    def _progress(self, view: SimView) -> dict[str, Tensor]:
        return {"reach": rewards.closeness(self._distance(view), REACH_SCALE_M)}

    def _task_items(self) -> dict[str, TensorSpec]:
        position = TensorSpec(shape=(3,), unit="m", frame="world")
        return {GOAL: position, "goal_from_ee": position}

    def _observe_task(self, view: SimView) -> dict[str, Tensor]:
        goal = view.goal[GOAL]
        return {GOAL: goal, "goal_from_ee": goal - view.sensor("ee_pos")}


class ReachExpert(ArmExpert):
    """A demonstrator that moves straight to the goal as perceived, with noise.

    Args:
        task: The demonstrated task.
        num_envs: B.
        generator: Source of the noise.
        noise: Noise level in [0, 1].
    """

    def __init__(
        self, task: Reach, num_envs: int, generator: torch.Generator, noise: float
    ) -> None:
        import torch

        super().__init__(task, task.cfg.expert, num_envs, generator, noise)
        self._misjudged_m = noise * task.cfg.expert.perception_noise_m
        self._misjudged = torch.zeros(num_envs, 3)

    def _begin(self, view: SimView, ids: Tensor) -> None:
        import torch

        super()._begin(view, ids)
        drawn = torch.randn(len(ids), 3, generator=self._generator)
        self._misjudged[ids] = self._misjudged_m * drawn

    def _decide(self, view: SimView) -> Tensor:
        import torch

        self._move(view.goal[GOAL] + self._misjudged)
        return torch.zeros(len(self._pos))
