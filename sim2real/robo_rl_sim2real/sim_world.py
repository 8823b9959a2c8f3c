"""One simulated world of a task, as the robot in it would know it.

Not a part of what is deployed: it needs torch and MuJoCo.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch

from robo_rl.env.base import Backend, SimView
from robo_rl.errors import ConfigError
from robo_rl.robot import Robot
from robo_rl.seeding import derive
from robo_rl.task import Task
from robo_rl_sim2real.readings import Values


class SimWorld:
    """A world that goes on by ``dt_s`` at a time under the last command, until it is reset.

    An episode's time counts from its first command on: who commands it may take a while to come.

    Args:
        task: Task, and the robot in it.
        backend: What computes the physics.
        dt_s: A multiple of the physics step.

    Raises:
        ConfigError: It is not.
    """

    def __init__(self, task: Task, backend: Backend, dt_s: float) -> None:
        scene = task.scene()
        step_s = scene.option.timestep
        self._substeps = round(dt_s / step_s)
        if self._substeps < 1 or abs(self._substeps * step_s - dt_s) > 1e-9:
            raise ConfigError("rate", expected=f"a multiple of {step_s} s", found=f"{dt_s} s")
        self.task, self._backend = task, backend
        backend.load(scene, 1)
        self._goal: dict[str, torch.Tensor] = {}
        self._act = torch.zeros(1, task.act_spec.size)
        self._steps, self._begun = 0, False
        self.dt_s, self.success = dt_s, False
        pairs = zip(self.robot.actuator_names, self.robot.actuated, strict=True)
        joint_of = {actuator: joint.name for actuator, joint in pairs}
        self.commanded = [joint_of[name] for name in task.act_spec.names]

    @property
    def robot(self) -> Robot:
        """The robot in it."""
        return self.task.robot

    @property
    def view(self) -> SimView:
        """The world as it stands."""
        return replace(self._backend.view(), goal=self._goal)

    @property
    def over(self) -> bool:
        """Whether the episode has succeeded or has taken as long as it may."""
        return self.success or self._steps * self.dt_s >= self.task.episode_s - 1e-9

    def reset(self, seed: int) -> None:
        """A new episode; the robot stands still at its start until it is commanded."""
        start = self.task.reset(1, torch.Generator().manual_seed(derive("sim robot", seed)))
        self._backend.write(torch.zeros(1, dtype=torch.int64), start.qpos, start.qvel)
        self._goal, self._steps, self.success = dict(start.goal), 0, False
        position = self.joint_positions()
        self.command({name: position[name] for name in self.commanded})
        self._begun = False

    def command(self, positions: Mapping[str, float]) -> None:
        """Targets of joints by name; they stay until others come. Unknown names are an error.

        Raises:
            ConfigError: A joint that is not commanded here.
        """
        names = self.commanded
        for name, value in positions.items():
            if name not in names:
                raise ConfigError(f"command of '{name}'", expected=f"one of {', '.join(names)}")
            self._act[0, names.index(name)] = value
        self._begun = True

    def step(self) -> None:
        """Go on by ``dt_s``."""
        spec = self.task.act_spec
        act = self._act.clamp(torch.tensor(spec.low), torch.tensor(spec.high))
        ctrl = self.task.control(self.view, act).unsqueeze(1)
        self._backend.step(ctrl, self._substeps)
        self._steps += self._begun
        self.success = self.success or bool(self.task.success(self.view)[0])

    def joint_positions(self) -> dict[str, float]:
        """Every joint's measured position."""
        return {j.name: self._sensor(f"{j.name}_pos") for j in self.robot.joints}

    def joint_velocities(self) -> dict[str, float]:
        """Every joint's measured velocity."""
        return {j.name: self._sensor(f"{j.name}_vel") for j in self.robot.joints}

    def pose(self, name: str) -> dict[str, Values]:
        """Position and orientation (wxyz) of a named frame or object."""
        view = self.view
        pos, quat = (view.sensor(f"{name}_{part}")[0].numpy() for part in ("pos", "quat"))
        return {
            "position": pos.astype(np.float64),
            "orientation": quat.astype(np.float64),
        }

    def poses(self) -> list[str]:
        """Names that have a pose."""
        have = self.view.slices
        return [n.removesuffix("_quat") for n in have if n.endswith("_quat")]

    def close(self) -> None:
        """Free the physics."""
        self._backend.close()

    def _sensor(self, name: str) -> float:
        return float(self.view.sensor(name)[0, 0])
