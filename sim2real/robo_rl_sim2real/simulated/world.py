"""One simulated world of a task, seen from its robot.

This module is not deployed: it needs torch and MuJoCo.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from robo_rl.api.cameras import CameraItem, CameraSettings
from robo_rl.api.env import Backend, SimView
from robo_rl.api.renderer import Pending
from robo_rl.api.robot import Robot
from robo_rl.api.task import DeltaTask, Instructed, Task
from robo_rl.core.errors import ConfigError
from robo_rl.core.seeding import derive
from robo_rl.env.mujoco.mocap import mocap_poses
from robo_rl.env.mujoco.task_check.check import check_on_backend
from robo_rl.env.rendering.camera_set import CameraSet
from robo_rl.language.base import INSTRUCTION
from robo_rl_sim2real.messages.ee_pose import EePoseAxes
from robo_rl_sim2real.messages.readings import Reading, Values


class SimWorld:
    """A world that advances by ``dt_s`` per step under the last command, until it is reset.

    An episode's time starts at its first command, because the commanding node may start later.
    Commands are targets, also for a task with delta actions: the node adds them up.

    Args:
        task: Task with its robot.
        backend: Physics backend.
        dt_s: Step, a multiple of the physics step.

    Raises:
        ConfigError: ``dt_s`` is no multiple of the physics step.
        PluginError: The task violates its specification.
    """

    def __init__(self, task: Task, backend: Backend, dt_s: float) -> None:
        task = task.absolute() if isinstance(task, DeltaTask) else task
        scene, self._model = check_on_backend(backend, task)
        self._substeps = _num_substeps(dt_s, scene.option.timestep)
        self.task, self._backend = task, backend
        backend.load(scene, 1)
        self._goal: dict[str, torch.Tensor] = {}
        self._act = torch.zeros(1, task.act_spec.size)
        self._ctrl: torch.Tensor | None = None
        self._held = 0
        self._steps, self._begun = 0, False
        self._cameras: CameraSet | None = None
        self.dt_s, self.success = dt_s, False
        pairs = zip(self.robot.actuator_names, self.robot.actuated_joints, strict=True)
        joint_of = {actuator: joint.name for actuator, joint in pairs}
        self.commanded = [joint_of.get(name, name) for name in task.act_spec.names]
        self._hand = EePoseAxes.of(self.robot)

    @property
    def robot(self) -> Robot:
        """The robot of the task."""
        return self.task.robot

    @property
    def view(self) -> SimView:
        """The present state of the world."""
        return replace(self._backend.view(), goal=self._goal)

    @property
    def instruction(self) -> str:
        """What this episode asks for, in words; empty for a task without instructions."""
        if not isinstance(self.task, Instructed):
            return ""
        return self.task.sentences[int(self._goal[INSTRUCTION][0])]

    @property
    def episode_over(self) -> bool:
        """Whether the episode has succeeded or has reached its time limit."""
        return self.success or self._steps * self.dt_s >= self.task.episode_s - 1e-9

    def reset(self, seed: int) -> None:
        """Start a new episode; the robot rests at its start until the first command."""
        start = self.task.reset(1, torch.Generator().manual_seed(derive("sim robot", seed)))
        mocap = mocap_poses(self._model, start.goal, 1)
        first = torch.zeros(1, dtype=torch.int64)
        self._backend.write(first, start.qpos, start.qvel, None, **mocap)
        self._goal, self._steps, self.success = dict(start.goal), 0, False
        if self._cameras:
            self._cameras.looks.restore({}, self._goal)
        position = self.positions()
        self.command({name: position[name] for name in self.commanded})
        self._begun = False

    def command(self, positions: Mapping[str, float]) -> None:
        """Set targets of joints and axes by name; they stay in effect.

        Raises:
            ConfigError: A joint is not commanded in this task.
        """
        names = self.commanded
        for name, value in positions.items():
            if name not in names:
                raise ConfigError(f"command of '{name}'", expected=f"one of {', '.join(names)}")
            at = names.index(name)
            low, high = self.task.act_spec.low[at], self.task.act_spec.high[at]
            self._act[0, at] = min(max(value, low), high)
        self._begun, self._ctrl = True, None

    def step(self) -> None:
        """Advance by ``dt_s``.

        The task's control law runs when an action arrives and, as in training, every control period
        afterwards.
        """
        if self._ctrl is None or self._held >= round(self.task.dt_s / self.dt_s):
            self._ctrl, self._held = self.task.control(self.view, self._act).unsqueeze(1), 0
        self._backend.step(self._ctrl, self._substeps)
        self._held += 1
        self._steps += self._begun
        self.success = self.success or bool(self.task.success(self.view)[0])

    @property
    def targets(self) -> dict[str, float]:
        """The last command by name."""
        return dict(zip(self.commanded, self._act[0].tolist(), strict=True))

    def positions(self) -> dict[str, float]:
        """Return every joint's measured position, and the end-effector axes if there are any."""
        axes = (
            self._hand.numbers(Reading(self.pose("ee"), (), 0.0), "ee") if self._hand.names else ()
        )
        return self.joint_positions() | dict(zip(self._hand.names, map(float, axes), strict=True))

    def joint_positions(self) -> dict[str, float]:
        """Return every joint's measured position."""
        return {j.name: self._sensor(f"{j.name}_pos") for j in self.robot.joints}

    def joint_velocities(self) -> dict[str, float]:
        """Return every joint's measured velocity."""
        return {j.name: self._sensor(f"{j.name}_vel") for j in self.robot.joints}

    def pose(self, name: str) -> dict[str, Values]:
        """Return position and orientation (wxyz) of a named frame or object."""
        view = self.view
        pos, quat = (view.sensor(f"{name}_{part}")[0].numpy() for part in ("pos", "quat"))
        return {
            "position": pos.astype(np.float64),
            "orientation": quat.astype(np.float64),
        }

    def add_cameras(self, cameras: Sequence[CameraItem]) -> None:
        """Add cameras, active from the next reset on.

        Raises:
            ConfigError: There is no such camera.
            DeviceError: This machine cannot render.
        """
        settings = CameraSettings(cameras=tuple(cameras))
        self._cameras = CameraSet(self.task.scene(), settings, self._backend, 1)

    def start_render(self) -> Pending:
        """Start rendering; fetching returns item → (1, 3, H, W) uint8."""
        assert self._cameras is not None
        return self._cameras.start(self._backend.view().qpos)

    def poses(self) -> list[str]:
        """Return the names that have a pose."""
        have = self.view.slices
        return [n.removesuffix("_quat") for n in have if n.endswith("_quat")]

    def close(self) -> None:
        """Close the physics and the cameras."""
        self._backend.close()
        if self._cameras:
            self._cameras.close()

    def _sensor(self, name: str) -> float:
        return float(self.view.sensor(name)[0, 0])


def _num_substeps(dt_s: float, step_s: float) -> int:
    """Return the number of physics steps in a step of the world.

    Raises:
        ConfigError: It is no whole number.
    """
    number, rate_hz = max(round(dt_s / step_s), 1), 1.0 / dt_s
    if abs(number * step_s - dt_s) > 1e-9:
        below = max(int(dt_s / step_s), 1)
        possible = [1.0 / (count * step_s) for count in (below, below + 1)]
        raise ConfigError(
            "is no rate of the simulation",
            where="rate_hz",
            expected=f"the physics' {1.0 / step_s:g} Hz divided by a whole number",
            found=f"{rate_hz:g} Hz",
            hint=f"the nearest is rate_hz={min(possible, key=lambda r: abs(r - rate_hz)):.10g}",
        )
    return number
