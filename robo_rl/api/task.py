"""What a task is: reward, reset, observation, termination over a robot and a scene; no learning.

Shapes: B envs, A act_dim. A task is written once against ``SimView`` and runs on every backend
and on the twin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from robo_rl.api.env import SimView
    from robo_rl.api.robot import Robot
    from robo_rl.core.spec import ActSpec, ObsSpec


class Reset(NamedTuple):
    """Start states: qpos (n, nq), qvel (n, nv), and for the whole episode goal name → (n, …).

    A goal that is named after a mocap body of the scene places it: (n, 3) position, (n, 4)
    quaternion, wxyz, or (n, 7) both.
    """

    qpos: Tensor
    qvel: Tensor
    goal: dict[str, Tensor]

    def repeat(self, copies: int) -> Reset:
        """Every start ``copies`` times in a row."""
        qpos, qvel = (each.repeat_interleave(copies, 0) for each in (self.qpos, self.qvel))
        return Reset(qpos, qvel, {k: v.repeat_interleave(copies, 0) for k, v in self.goal.items()})


class Task(Protocol):
    """A task over a robot and a scene. Construct with its own ``Config`` model.

    ``robot`` may be None in a scene without one.

    ``open_loop`` says that ``control`` reads nothing of the view but ``ctrl``, so that an action
    sequence can be turned into controls without stepping.
    """

    robot: Robot
    obs_spec: ObsSpec
    act_spec: ActSpec
    dt_s: float
    episode_s: float
    open_loop: bool

    def scene(self) -> Any:
        """The scene as a fresh ``mujoco.MjSpec``, robot included."""
        ...

    def reset(self, num: int, generator: torch.Generator) -> Reset:
        """Draw num start states."""
        ...

    def control(self, view: SimView, act: Tensor) -> Tensor:
        """Turn act (B, A), already clipped to ``act_spec``, into ctrl (B, nu)."""
        ...

    def observe(self, view: SimView) -> dict[str, Tensor]:
        """The observation of ``obs_spec``, each (B, …)."""
        ...

    def reward(self, view: SimView, act: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Reward (B,) and its parts by name, each (B,)."""
        ...

    def terminated(self, view: SimView) -> Tensor:
        """(B,) bool."""
        ...

    def success(self, view: SimView) -> Tensor:
        """(B,) bool."""
        ...


class Expert(Protocol):
    """A scripted demonstrator of B envs, closed loop over views."""

    def reset(self, ids: Tensor) -> None:
        """The envs ids (n,) begin a new episode."""
        ...

    def act(self, view: SimView) -> Tensor:
        """The demonstrated action (B, A), noise included."""
        ...


class Demonstrable(Protocol):
    """A task that brings a scripted demonstrator."""

    def expert(self, num_envs: int, generator: torch.Generator, noise: float) -> Expert:
        """A demonstrator; noise 0 is its best, 1 is so noisy that it mostly fails."""
        ...
