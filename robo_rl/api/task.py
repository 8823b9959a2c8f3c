"""The task interface: reward, reset, observation and termination over a robot and a scene.

Shapes: B envs, A act_dim. A task contains no learning code. It is written once against ``SimView``
and runs on every backend and on the twin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from robo_rl.api.env import SimView
    from robo_rl.api.robot import Robot
    from robo_rl.core.spec import ActSpec, ObsSpec


class Reset(NamedTuple):
    """Start states: qpos (n, nq), qvel (n, nv), and for the whole episode goal name → (n, …).

    A goal with the name of a mocap body of the scene places that body: (n, 3) position, (n, 4)
    quaternion, wxyz, or (n, 7) both.
    """

    qpos: Tensor
    qvel: Tensor
    goal: dict[str, Tensor]

    def repeat(self, copies: int) -> Reset:
        """Return each start state repeated ``copies`` times in a row."""
        qpos, qvel = (each.repeat_interleave(copies, 0) for each in (self.qpos, self.qvel))
        return Reset(qpos, qvel, {k: v.repeat_interleave(copies, 0) for k, v in self.goal.items()})


class Task(Protocol):
    """A task over a robot and a scene. Construct it with its own ``Config`` model.

    ``robot`` may be None in a scene without a robot.

    ``open_loop`` states that ``control`` reads only ``ctrl`` of the view, so that an action
    sequence can be converted to controls without stepping.

    Tensors of views and actions may be on a GPU. A method that reads a number from them, such as
    by ``bool`` or ``float``, makes the host wait in every control step.
    """

    robot: Robot
    obs_spec: ObsSpec
    act_spec: ActSpec
    dt_s: float
    episode_s: float
    open_loop: bool

    def scene(self) -> Any:
        """Return the scene as a fresh ``mujoco.MjSpec``, robot included."""
        ...

    def reset(self, num: int, generator: torch.Generator) -> Reset:
        """Draw num start states."""
        ...

    def control(self, view: SimView, act: Tensor) -> Tensor:
        """Convert act (B, A), already clipped to ``act_spec``, to ctrl (B, nu)."""
        ...

    def observe(self, view: SimView) -> dict[str, Tensor]:
        """Return the observation of ``obs_spec``, each item (B, …)."""
        ...

    def reward(self, view: SimView, act: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the reward (B,) and its terms by name, each (B,)."""
        ...

    def terminated(self, view: SimView) -> Tensor:
        """Return the termination flags, (B,) bool."""
        ...

    def success(self, view: SimView) -> Tensor:
        """Return the success flags, (B,) bool."""
        ...


@runtime_checkable
class DeltaTask(Protocol):
    """A task whose actions may be changes of the last command, see ``ActSpec.reference``.

    ``control`` finds the last command in ``ctrl`` of the view.
    """

    def start_ctrl(self, start: Reset) -> Tensor:
        """Return the control (n, nu) that rests at start states: the command before the first."""
        ...

    def absolute(self) -> Task:
        """Return the same task with absolute actions, which a robot's controllers receive."""
        ...


class Demonstration(NamedTuple):
    """An expert's two actions in one state.

    Noise in the executed action moves the env to states beside the expert's path, and the label
    leads back from there (DART, Laskey et al. 2017, arXiv 1703.09327). A policy that is cloned from
    executed actions learns the noise too.

    Args:
        act: (B, A), what the env executes, noise included.
        label: (B, A), the same action without its noise, which a policy clones.
    """

    act: Tensor
    label: Tensor

    @classmethod
    def of(cls, given: Demonstration | Tensor) -> Demonstration:
        """Return an expert's answer as two actions; a plain action (B, A) is its own label."""
        return given if isinstance(given, Demonstration) else cls(given, given)


class Expert(Protocol):
    """A scripted demonstrator of B envs, closed loop over views.

    An expert whose action is a function of the view alone may say so by an attribute
    ``memoryless = True``. It can then label states that another policy visits.
    """

    def reset(self, ids: Tensor) -> None:
        """Begin a new episode in the envs ids (n,)."""
        ...

    def act(self, view: SimView) -> Demonstration | Tensor:
        """Return what is executed and what is its label, or one action (B, A) that is both."""
        ...


class Demonstrable(Protocol):
    """A task with a scripted demonstrator."""

    def expert(self, num_envs: int, generator: torch.Generator, noise: float) -> Expert:
        """Return a demonstrator; it performs best at noise 0 and mostly fails at noise 1."""
        ...


@runtime_checkable
class Instructed(Protocol):
    """A task that is told in words what to do.

    ``Reset.goal["instruction"]`` (n,) int64 is the index of each episode's sentence.
    """

    sentences: tuple[str, ...]
    """All instructions that resets draw."""


@runtime_checkable
class TaskGroup(Protocol):
    """Several tasks in one scene; worlds differ in their task.

    ``Reset.goal["task"]`` (n,) int64 is the index of each episode's task.
    """

    task_names: tuple[str, ...]
    """Names of the tasks."""

    def weigh_tasks(self, weights: Tensor) -> None:
        """Draw the tasks of new episodes in proportion to weights (number of tasks,)."""
        ...


@runtime_checkable
class CommandsHand(Protocol):
    """A task whose actions are targets of a robot that has a hand."""

    def commanded_hand_pos(self, act: Tensor) -> Tensor:
        """Return the position (B, 3) in m that the actions act (B, A) send the hand to."""
        ...
