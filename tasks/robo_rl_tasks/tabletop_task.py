"""Base of the built-in tasks of an arm on a table: settings, reward, termination."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Generic, Literal, TypeVar, cast

from pydantic import Field

from robo_rl import Component, ConfigModel, Robot, component
from robo_rl_tasks import rewards
from robo_rl_tasks.arm import Actions, ArmTask

if TYPE_CHECKING:
    from torch import Tensor

    from robo_rl import SimView


class TabletopConfig(ConfigModel):
    """Settings of every ``TabletopTask``.

    Args:
        robot: A robot with a gripper.
        reward: ``sparse``: 1 at success; ``dense`` adds the missing progress as costs.
        terminate_on_success: Whether an episode ends with its success.
        start_joint_pos: (J,) arm joints at reset, rad; empty for the robot's home.
        start_noise: Standard deviation of the arm joints about it, rad.
        episode_s: Time limit.
        actions: Joint targets, poses of the end effector, or changes of the last command of
            either; see ``robo_rl_tasks.deltas``.
    """

    robot: Annotated[Component[Robot], component("robots")] = cast("Component[Robot]", "panda")
    reward: Literal["dense", "sparse"] = "dense"
    terminate_on_success: bool = True
    start_joint_pos: tuple[float, ...] = ()
    start_noise: float = Field(default=0.02, ge=0)
    episode_s: float = Field(default=4.0, gt=0)
    actions: Actions = "joints"


ConfigT = TypeVar("ConfigT", bound=TabletopConfig)


class TabletopTask(ArmTask, Generic[ConfigT]):
    """An arm task made from settings; subclasses define success and progress.

    Args:
        cfg: Settings.
        holds_m: See ``ArmTask``.
    """

    weights: ClassVar[Mapping[str, float]]
    """Weight of each term of ``_progress`` in the dense reward."""

    def __init__(self, cfg: ConfigT, *, holds_m: float | None = None) -> None:
        self.cfg = cfg
        super().__init__(
            cfg.robot.build(),
            cfg.episode_s,
            cfg.start_joint_pos,
            cfg.start_noise,
            holds_m=holds_m,
            actions=cfg.actions,
        )

    def reward(self, view: SimView, act: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return 1 at success; dense adds the missing part of each progress term as a cost."""
        del act
        return self._rewarded(self.success(view), lambda: self._progress(view))

    def terminated(self, view: SimView) -> Tensor:
        """Return the success flags if ``terminate_on_success``, else False, (B,) bool."""
        return self.success(view) & self.cfg.terminate_on_success

    def success(self, view: SimView) -> Tensor:
        """Return whether each env has succeeded, (B,) bool."""
        raise NotImplementedError

    def _rewarded(
        self, success: Tensor, progress: Callable[[], dict[str, Tensor]]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        if self.cfg.reward == "sparse":
            return success.float(), {"success": success.float()}
        parts = progress()
        return rewards.shaped(parts, self.weights, success.float()), parts

    def _progress(self, view: SimView) -> dict[str, Tensor]:
        """Return the terms of the dense reward, (B,) in [0, 1] each."""
        raise NotImplementedError
