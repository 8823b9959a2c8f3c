"""Reach a point with the end effector: the smallest task, to try things on.

Shapes: B envs. The goal is a point in the world, drawn at reset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import Field

from robo_rl import Component, ConfigModel, Reset, TensorSpec, component
from robo_rl_tasks import rewards
from robo_rl_tasks.arm import Actions, ArmTask
from robo_rl_tasks.expert import ArmExpert, ArmExpertConfig
from robo_rl_tasks.poses import uniform
from robo_rl_tasks.scene import add_marker, tabletop

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from robo_rl import SimView

GOAL = "goal_pos"
WEIGHTS = {"reach": 0.1}
REACH_SCALE_M = 0.1


class ReachExpertConfig(ArmExpertConfig):
    """Settings of ``ReachExpert``.

    Args:
        perception_noise_m: Standard deviation of the goal's seen position at noise 1, per axis.
    """

    perception_noise_m: float = 0.035


class ReachConfig(ConfigModel):
    """Settings of ``Reach``.

    Args:
        robot: A robot with a gripper.
        reward: ``sparse``: 1 at success; ``dense``: also the distance as a cost.
        terminate_on_success: Whether an episode ends with its success.
        success_m: Distance at which the goal counts as reached.
        goal_low: Lower corner of the box of goals in the world, m.
        goal_high: Upper corner.
        start: (J,) arm joints at reset, rad; empty for the robot's home.
        start_noise: Standard deviation of the arm joints about it, rad.
        episode_s: Time limit.
        actions: Targets of the joints, or poses of the end effector.
        expert: Settings of the scripted demonstrator.
    """

    robot: Annotated[Component, component("robots")] = cast(Component, "panda")
    reward: Literal["dense", "sparse"] = "dense"
    terminate_on_success: bool = True
    success_m: float = Field(default=0.02, gt=0)
    goal_low: tuple[float, float, float] = (0.35, -0.3, 0.1)
    goal_high: tuple[float, float, float] = (0.65, 0.3, 0.5)
    start_joint_pos: tuple[float, ...] = ()
    start_noise: float = Field(default=0.05, ge=0)
    episode_s: float = Field(default=2.5, gt=0)
    actions: Actions = "joints"
    expert: ReachExpertConfig = ReachExpertConfig()


class Reach(ArmTask):
    """A point in space, to be touched by the end effector; the gripper stays closed.

    Args:
        cfg: Settings.
    """

    Config = ReachConfig

    def __init__(self, cfg: ReachConfig) -> None:
        self.cfg = cfg
        super().__init__(
            cfg.robot.build(),
            cfg.episode_s,
            cfg.start_joint_pos,
            cfg.start_noise,
            holds_m=0.0,
            actions=cfg.actions,
        )

    def scene(self) -> Any:
        """The robot, a table and a marker of the goal."""
        spec = tabletop(self.robot)
        add_marker(spec, GOAL, [[0.0, 0.0, 0.0, 0.01, 0.01, 0.01]])
        return spec

    def reset(self, num: int, generator: torch.Generator) -> Reset:
        """The arm about its start, the goal anywhere in its box."""
        import torch

        qpos = self._start(num, generator)
        low, high = torch.tensor(self.cfg.goal_low), torch.tensor(self.cfg.goal_high)
        goal = {GOAL: uniform(low, high, num, generator)}
        return Reset(qpos=qpos, qvel=torch.zeros_like(qpos), goal=goal)

    def reward(self, view: SimView, act: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """1 at success; dense adds the distance as a cost."""
        success = self.success(view).float()
        if self.cfg.reward == "sparse":
            return success, {"success": success}
        parts = {"reach": rewards.closeness(self._distance(view), REACH_SCALE_M)}
        return rewards.shaped(parts, WEIGHTS, success), parts

    def terminated(self, view: SimView) -> Tensor:
        """With the success, if so configured."""
        return self.success(view) & self.cfg.terminate_on_success

    def success(self, view: SimView) -> Tensor:
        """Whether the end effector is within ``success_m`` of the goal."""
        return self._distance(view) <= self.cfg.success_m

    def expert(self, num_envs: int, generator: torch.Generator, noise: float = 0.0) -> ReachExpert:
        """A scripted demonstrator of num_envs envs."""
        return ReachExpert(self, num_envs, generator, noise)

    def _distance(self, view: SimView) -> Tensor:
        return rewards.distance(view.sensor("ee_pos"), view.goal[GOAL])

    def _task_items(self) -> dict[str, TensorSpec]:
        position = TensorSpec(shape=(3,), unit="m", frame="world")
        return {GOAL: position, "goal_from_ee": position}

    def _observe_task(self, view: SimView) -> dict[str, Tensor]:
        goal = view.goal[GOAL]
        return {GOAL: goal, "goal_from_ee": goal - view.sensor("ee_pos")}


class ReachExpert(ArmExpert):
    """Straight to the goal, or to where noise sees it.

    Args:
        task: The task that it demonstrates.
        num_envs: B.
        generator: Where its noise comes from.
        noise: Level in [0, 1].
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
