"""Thousands of MuJoCo worlds at once on a GPU, with MuJoCo Warp; on a CPU for tests.

Shapes: B worlds, T control steps, S physics steps in each, n written worlds; float32, except the
clock. Torch tensors and Warp arrays share memory.

The constraint solver starts from the last acceleration, which is part of a world's state: a
snapshot contains it, and ``write`` clears it with the rest of a world's history.
"""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import mujoco
import mujoco_warp as mjw
import torch
import warp as wp
from pydantic import Field
from torch import Tensor

from robo_rl.api.cameras import CameraItem
from robo_rl.api.env import SimView
from robo_rl.config.fingerprint import Fingerprint, versions_of
from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import ConfigError
from robo_rl.env.mujoco.sensor_slices import sensor_slices
from robo_rl.env.warp import nan_guard as warp_guard
from robo_rl.env.warp.buffer_sizes import BufferSizes, few_pairs, probed_sizes
from robo_rl.env.warp.device import find_device, quiet_warp
from robo_rl.env.warp.graph_capture import GraphLauncher
from robo_rl.env.warp.memory import envs_that_fit, make_data, put_model, require_memory
from robo_rl.env.warp.per_env_fields import PerEnvFields
from robo_rl.env.warp.renderer import WarpRenderer
from robo_rl.env.warp.state import WorldState


class MujocoWarpConfig(ConfigModel):
    """Settings of ``MujocoWarp``.

    Args:
        device: ``cuda``, ``cuda:1``, ``cpu``, or ``auto`` for a GPU if there is one.
        contacts: Contact buffer size per world, shared by all worlds; 0 derives it.
        constraints: Constraint rows in each world; 0 derives the number.
    """

    device: str = "auto"
    contacts: int = Field(default=0, ge=0)
    constraints: int = Field(default=0, ge=0)


class MujocoWarp:
    """A ``Backend`` that also has ``snapshot`` and ``restore``.

    The last view of ``step`` and that of ``view`` share the physics' own memory. They are valid
    until the next ``step``, ``write`` or ``restore``. Earlier views of a ``step`` are copies and
    stay valid.

    A diverged world shows NaN positions and a stopped clock until it is written. The counters
    ``lost_contacts`` and ``lost_constraints`` are 1 where a buffer overflowed in the control
    step. On a GPU the order of sums is not fixed, so that two equal runs differ in the last bits;
    on a CPU they are identical. ``sizes`` holds the derived or configured buffer sizes.
    """

    Config: ClassVar[type[MujocoWarpConfig]] = MujocoWarpConfig
    dtype = torch.float32

    @staticmethod
    def fingerprint(cfg: MujocoWarpConfig) -> Fingerprint:
        """Return the fingerprint of MuJoCo Warp; see ``Fingerprinted``."""
        del cfg
        return Fingerprint(versions=versions_of(["mujoco", "mujoco-warp", "warp-lang"]))

    def __init__(self, cfg: MujocoWarpConfig) -> None:
        self.cfg, self.device = cfg, find_device(cfg.device)
        self._fitted: BufferSizes | None = None
        self._state: WorldState | None = None

    def fit(self, scene: Any, qpos: Tensor, qvel: Tensor, mocap: Tensor | None = None) -> None:
        """Derive the buffer sizes from start states qpos (n, nq), qvel (n, nv).

        ``mocap`` (n, nmocap, 7) are the poses of the mocap bodies.
        """
        given = (qpos, qvel) if mocap is None else (qpos, qvel, mocap)
        states = (each.double().cpu().numpy() for each in given)
        self._fitted = probed_sizes(scene.compile(), *states)

    def capacity(self, scene: Any) -> int:
        """Return the number of worlds that fit the free memory of the device."""
        model: mujoco.MjModel = scene.compile()
        return envs_that_fit(model, self._sizes_of(model), self.device)

    def load(self, scene: Any, num_envs: int) -> None:
        """Compile the ``MjSpec`` scene and create num_envs worlds in the model's default state.

        Raises:
            ConfigError: MuJoCo Warp does not support an element of the scene.
            DeviceError: The scene is too large for the memory.
        """
        self.close()
        model: mujoco.MjModel = scene.compile()
        self._timestep_s, self._slices = float(model.opt.timestep), sensor_slices(model)
        self._launcher = GraphLauncher(self.device, f"mujoco_warp on {self.device}")
        self.sizes = self._sizes_of(model)
        with quiet_warp(), wp.ScopedDevice(wp.device_from_torch(self.device)):
            require_memory(model, self.sizes, num_envs, self.device)
            self._model = put_model(model)
            self._data = make_data(model, num_envs, self.sizes)
            wp.synchronize_device()  # torch writes there next, on its own stream
        forget, derive = self._launcher.forget, self._derive
        self._fields = PerEnvFields(self._model, num_envs, forget, derive)
        self._state = WorldState(self._data, model)
        self._forward(self._rows(range(num_envs)))

    def write(
        self,
        ids: Tensor,
        qpos: Tensor,
        qvel: Tensor,
        fields: Mapping[str, Tensor] | None = None,
        mocap: Tensor | None = None,
        ctrl: Tensor | None = None,
    ) -> None:
        """Set worlds ids (n,) to qpos (n, nq), qvel (n, nv), time 0, and the rest to defaults.

        ``fields`` are model fields of these worlds, name → (n, …); other fields keep their values.
        ``mocap`` (n, nmocap, 7) are the poses of the mocap bodies, ``ctrl`` (n, nu) the last
        control; None for zeros.

        Raises:
            ConfigError: A field cannot differ by world on this backend.
        """
        state, rows = self._loaded(), ids.to(self.device)
        qpos, qvel = qpos.to(state.qpos, copy=True), qvel.to(state.qvel, copy=True)
        if fields:
            self._fields.write(rows, fields)
        state.reset(rows)
        state.qpos[rows], state.qvel[rows] = qpos, qvel
        if mocap is not None:
            state.place(rows, mocap)
        if ctrl is not None:
            state.ctrl[rows] = ctrl.to(state.ctrl)
        self._forward(rows)

    def step(self, ctrl: Tensor, substeps: int) -> list[SimView]:
        """Advance T control steps, ctrl (B, T, nu), of substeps physics steps; T views."""
        state, views = self._loaded(), list[SimView]()
        for ctrl_t in ctrl.detach().to(state.ctrl).unbind(1):
            views = [*views[:-1], *map(_copied, views[-1:])]
            state.ctrl.copy_(ctrl_t)
            state.overflow.zero_()
            self._launcher.run(("step", substeps), lambda: self._advance(substeps))
            views.append(self._window())
        return views

    def view(self) -> SimView:
        """Return the current state; for worlds just written, sensors are those of that state."""
        self._loaded()
        return self._window()

    def snapshot(self) -> dict[str, Any]:
        """Return the exact state: physics state with its warm start, clocks, per-world fields."""
        kept = {name: value.clone() for name, value in self._loaded().all.items()}
        fields = {name: value.clone() for name, value in self._fields.fields.items()}
        return {**kept, "fields": fields}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Restore a snapshot.

        Raises:
            CheckpointError: It is of another scene, number of worlds or backend.
        """
        self._loaded().restore({k: v for k, v in snapshot.items() if k != "fields"})
        self._fields.reset(snapshot["fields"])

    def renderer(
        self, model: Any, cameras: Sequence[CameraItem], num_envs: int, looks: Sequence[str]
    ) -> WarpRenderer:
        """Return a renderer of that model's worlds on this device; see ``RenderingBackend``.

        Raises:
            ConfigError: The renderer does not support these cameras.
        """
        return WarpRenderer(model, cameras, num_envs, looks, self.device)

    def close(self) -> None:
        """Release the memory."""
        if self._state is not None:
            del self._model, self._data, self._fields, self._launcher
            self._state = None

    def _loaded(self) -> WorldState:
        if self._state is None:
            raise ConfigError("backend is not loaded", hint="call load() before it is used")
        return self._state

    def _sizes_of(self, model: mujoco.MjModel) -> BufferSizes:
        """Return the configured, else the fitted sizes, else those of the default state."""
        contacts, constraints = self.cfg.contacts, self.cfg.constraints
        if not (contacts and constraints):
            data = mujoco.MjData(model)
            found = self._fitted or probed_sizes(model, data.qpos[None], data.qvel[None])
            contacts, constraints = contacts or found.contacts, constraints or found.constraints
        return BufferSizes(max(contacts, few_pairs(model)), constraints)

    def _rows(self, rows: range) -> Tensor:
        return torch.tensor(rows, device=self.device)

    def _advance(self, substeps: int) -> None:
        for _ in range(substeps):
            self._park()
            mjw.step(self._model, self._data)
            self._settle(1)

    def _forward(self, rows: Tensor) -> None:
        """Compute the sensors of the written worlds rows (n,); other worlds keep theirs."""
        state = self._loaded()
        changed = [state.all[name] for name in ("sensordata", "history")]
        kept = [each.clone() for each in changed]
        self._launcher.run("forward", self._compute)
        for each, old in zip(changed, kept, strict=True):
            new = each[rows]
            each.copy_(old)
            each[rows] = new

    def _compute(self) -> None:
        self._park()
        mjw.forward(self._model, self._data)
        self._settle(0)

    def _derive(self) -> None:
        """Compute the derived model fields of all worlds; a later forward computes their poses."""

        def constants() -> None:
            mjw.set_const(self._model, self._data, restore=False)

        self._launcher.run("constants", constants)

    def _park(self) -> None:
        data, bad = self._data, self._loaded().guard["bad"]
        worlds = [data.qpos, data.qvel, data.act, data.ctrl, data.qacc_warmstart]
        wp.launch(warp_guard.reset_diverged, data.nworld, [self._model.qpos0, *worlds, bad])

    def _settle(self, count: int) -> None:
        data, own = self._data, self._loaded().guard
        clock = [self._timestep_s, count, own["bad"], own["steps"]]
        shown = [data.qpos, data.qvel, data.time, own["time_s"]]
        wp.launch(warp_guard.finish_step, data.nworld, [*clock, *shown])

    def _window(self) -> SimView:
        state = self._loaded()
        return SimView(
            qpos=state.qpos,
            qvel=state.qvel,
            ctrl=state.ctrl,
            time_s=state.all["time_s"],
            sensordata=state.all["sensordata"],
            goal={},
            slices=self._slices,
            counters=state.counters(),
        )


def _copied(view: SimView) -> SimView:
    return replace(
        view,
        qpos=view.qpos.clone(),
        qvel=view.qvel.clone(),
        ctrl=view.ctrl.clone(),
        time_s=view.time_s.clone(),
        sensordata=view.sensordata.clone(),
    )
