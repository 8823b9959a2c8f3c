"""MuJoCo whose states are tensors on a pretended GPU, so that an env's waits can be counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from robo_rl.api.cameras import CameraSettings
from robo_rl.api.env import SimView
from robo_rl.config.component import Component, component
from robo_rl.env.mujoco.cpu_backend import MujocoCpu
from robo_rl.env.mujoco.sim_env import SimEnv

CAMERA = {"name": "wrist", "width": 36, "height": 36}


class PhysicsOnDevice(MujocoCpu):
    """A ``Backend`` that computes on the CPU and shows the states on a device.

    Args:
        device: Device of states and controls.
    """

    dtype = torch.float32

    def __init__(self, device: torch.device) -> None:
        super().__init__(MujocoCpu.Config(threads=1))
        self.device = device

    @wraps(MujocoCpu.write)  # with its signature, of which envs ask what can be placed
    def write(self, ids: Tensor, qpos: Tensor, qvel: Tensor, *given: Any, **named: Any) -> None:
        super().write(ids.cpu(), qpos.cpu(), qvel.cpu(), *given, **named)

    def step(self, ctrl: Tensor, substeps: int) -> list[SimView]:
        """See ``Backend``."""
        return [self._moved(view) for view in super().step(ctrl.cpu().double(), substeps)]

    def view(self) -> SimView:
        """See ``Backend``."""
        return self._moved(super().view())

    def _moved(self, view: SimView) -> SimView:
        names = ("qpos", "qvel", "ctrl", "sensordata")
        shown: Mapping[str, Any] = {name: self._here(getattr(view, name)) for name in names}
        return replace(view, time_s=view.time_s.to(self.device, non_blocking=True), **shown)

    def _here(self, value: Tensor) -> Tensor:
        return value.to(torch.float32).to(self.device, non_blocking=True)


def sim_env(device: torch.device, num_envs: int, task: Any, *, sees: bool = False) -> SimEnv:
    """Return a task with its states on a device; with an image if it sees."""
    # Component.build returns an instance without a config as it is; no entry point names this one.
    backend = Component("backends", "on_device", PhysicsOnDevice(device), None)
    eyes = CameraSettings.model_validate({"cameras": [CAMERA] if sees else []})
    cfg = SimEnv.Config.model_construct(**dict(eyes), backend=backend)
    return SimEnv(cfg, component("tasks").make(task).build(), num_envs)
