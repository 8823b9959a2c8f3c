"""Parallel MuJoCo on the CPU: ``mujoco.rollout`` on a persistent thread pool.

Shapes: B worlds, T control steps, S physics steps in each, n written worlds; float64. The input of
each physics step is nu controls followed by m numbers: the positions of all mocap bodies, 3 each,
then their orientations, 4 each.

Every call of ``step`` starts the constraint solver cold, so the physics state is the whole state
and a snapshot is exact. With ten physics steps per call, a warm start from the last acceleration
brings no measurable gain.
"""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import mujoco
import numpy as np
import torch
from mujoco.rollout import Rollout
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from robo_rl.api.env import SimView
from robo_rl.config.fingerprint import Fingerprint, versions_of
from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import CheckpointError, ConfigError
from robo_rl.env.mujoco.per_env_models import PerEnvModels
from robo_rl.env.mujoco.sensor_slices import sensor_slices
from robo_rl.env.threads import usable_cores

Array = NDArray[np.float64]

_STATE = mujoco.mjtState.mjSTATE_FULLPHYSICS
_CTRL = int(mujoco.mjtState.mjSTATE_CTRL)
_MOCAP = int(mujoco.mjtState.mjSTATE_MOCAP_POS) | int(mujoco.mjtState.mjSTATE_MOCAP_QUAT)


class MujocoCpuConfig(ConfigModel):
    """Settings of ``MujocoCpu``.

    Args:
        threads: Size of the thread pool; 0 takes the number of usable cores.
    """

    threads: int = Field(default=0, ge=0)

    without_effect: ClassVar[tuple[str, ...]] = ("threads",)


@dataclass(frozen=True)
class _Buffers:
    """Output of one call of T control steps, and the views into it."""

    ctrl: Array  # (B, T, S, nu + m)
    state: Array  # (B, T*S, nstate)
    sensordata: Array  # (B, T*S, nsensordata)
    views: list[SimView]


class MujocoCpu:
    """A ``Backend`` that also has ``snapshot`` and ``restore``.

    Views share memory that is reused: those from ``step`` are valid until the next ``step``, the
    one from ``view`` until the next ``step``, ``write`` or ``restore``.

    Automatic reset of diverged worlds is disabled in the model: a diverged world shows non-finite
    numbers or a stopped clock, and never a plausible state at the origin.
    """

    Config: ClassVar[type[MujocoCpuConfig]] = MujocoCpuConfig
    dtype = torch.float64

    @staticmethod
    def fingerprint(cfg: MujocoCpuConfig) -> Fingerprint:
        """Return the fingerprint of MuJoCo; see ``Fingerprinted``."""
        del cfg
        return Fingerprint(versions=versions_of(["mujoco"]))

    def __init__(self, cfg: MujocoCpuConfig) -> None:
        self.device = torch.device("cpu")
        self._threads = cfg.threads or usable_cores()
        self._pool: Rollout | None = None

    def load(self, scene: Any, num_envs: int) -> None:
        """Compile the ``MjSpec`` scene and create num_envs worlds in the model's default state."""
        self.close()
        self._model: mujoco.MjModel = scene.compile()
        self._model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
        self._models = PerEnvModels(self._model, num_envs)
        self._data = [mujoco.MjData(self._model) for _ in range(self._threads)]
        self._scratch = mujoco.MjData(self._model)
        self._pool = Rollout(nthread=self._threads if self._threads > 1 else 0)
        self._buffers: dict[tuple[int, int], _Buffers] = {}
        self._slices = sensor_slices(self._model)
        self._allocate(num_envs)

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
        """
        rows, nq, nv = ids.numpy(), self._model.nq, self._model.nv
        if fields:
            self._models.write(rows, {name: value.numpy() for name, value in fields.items()})
        state = np.repeat(self._default[None], len(rows), axis=0)
        state[:, 1 : 1 + nq] = qpos.numpy()
        state[:, 1 + nq : 1 + nq + nv] = qvel.numpy()
        self._state[rows] = state
        self._mocap[rows] = self._still if mocap is None else _flat(mocap.numpy())
        self._ctrl[rows] = 0.0 if ctrl is None else ctrl.numpy()
        self._sensordata[rows] = self._forward(rows, state)

    def step(self, ctrl: Tensor, substeps: int) -> list[SimView]:
        """Advance T control steps, ctrl (B, T, nu), of substeps physics steps; T views."""
        out = self._buffers_for(ctrl.shape[1], substeps)
        nu = self._model.nu
        out.ctrl[..., :nu] = ctrl.detach().numpy()[:, :, None]
        out.ctrl[..., nu:] = self._mocap[:, None, None]
        self._rollout(self._models.all, self._state, out.ctrl, out.state, out.sensordata)
        self._state[...] = out.state[:, -1]
        self._sensordata[...] = out.sensordata[:, -1]
        self._ctrl[...] = out.ctrl[:, -1, -1, :nu]
        return out.views

    def view(self) -> SimView:
        """Return the current state; for worlds just written, sensors are those of that state."""
        return self._view

    def snapshot(self) -> dict[str, Any]:
        """Return the exact state: physics, last sensors and controls, per-world model fields."""
        arrays = {"state": self._state, "sensordata": self._sensordata, "ctrl": self._ctrl}
        arrays |= {"mocap": self._mocap} if self._model.nmocap else {}
        kept = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
        fields = self._models.fields.items()
        return {**kept, "fields": {k: torch.from_numpy(v.copy()) for k, v in fields}}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Restore a snapshot.

        Raises:
            CheckpointError: It is of another scene or another number of worlds.
        """
        found, expected = tuple(snapshot["state"].shape), self._state.shape
        if found != expected:
            raise CheckpointError("snapshot of other worlds", expected=expected, found=found)
        self._state[...] = snapshot["state"].numpy()
        self._sensordata[...] = snapshot["sensordata"].numpy()
        self._ctrl[...] = snapshot["ctrl"].numpy()
        self._mocap[...] = snapshot["mocap"].numpy() if "mocap" in snapshot else self._still
        self._models.reset({name: value.numpy() for name, value in snapshot["fields"].items()})

    def close(self) -> None:
        """Stop the threads."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _allocate(self, num_envs: int) -> None:
        model = self._model
        self._default = np.empty(mujoco.mj_stateSize(model, _STATE))
        mujoco.mj_getState(model, self._scratch, self._default, _STATE)
        self._state = np.repeat(self._default[None], num_envs, axis=0)
        self._ctrl = np.zeros((num_envs, model.nu))
        data = self._scratch
        self._still = np.concatenate([data.mocap_pos.ravel(), data.mocap_quat.ravel()])
        self._mocap = np.repeat(self._still[None], num_envs, axis=0)
        self._sensordata = np.empty((num_envs, model.nsensordata))
        self._sensordata[...] = self._forward(np.arange(num_envs), self._state)
        self._view = self._window(self._state, self._sensordata, self._ctrl)

    def _rollout(
        self, models: list[mujoco.MjModel], start: Array, told: Array, state: Array, sensors: Array
    ) -> None:
        if self._pool is None:
            raise ConfigError("backend is not loaded", hint="call load() before it is used")
        steps = state.shape[1]
        self._pool.rollout(
            models,
            self._data,
            start,
            told.reshape(len(start), steps, -1),
            control_spec=_CTRL | (_MOCAP if self._model.nmocap else 0),
            skip_checks=True,
            nstep=steps,
            state=state,
            sensordata=sensors,
        )

    def _forward(self, rows: NDArray[np.int64], state: Array) -> Array:
        """Return the sensor values (n, nsensordata) of states (n, nstate) under the last control.

        MuJoCo computes sensors before it integrates, so one physics step gives them; the state
        after it is discarded.
        """
        after = np.empty((len(rows), 1, state.shape[1]))
        sensors = np.empty((len(rows), 1, self._model.nsensordata))
        told = np.concatenate([self._ctrl[rows], self._mocap[rows]], axis=1)
        models = self._models.all
        self._rollout(
            [models[row] for row in rows], np.ascontiguousarray(state), told, after, sensors
        )
        return sensors[:, 0]

    def _buffers_for(self, steps: int, substeps: int) -> _Buffers:
        key = (steps, substeps)
        if key not in self._buffers:
            num, model = len(self._state), self._model
            told = np.empty((num, steps, substeps, model.nu + self._mocap.shape[1]))
            state = np.empty((num, steps * substeps, self._state.shape[1]))
            sensors = np.empty((num, steps * substeps, model.nsensordata))
            ends = [(t, (t + 1) * substeps - 1) for t in range(steps)]
            ctrl = told[..., : model.nu]
            views = [self._window(state[:, e], sensors[:, e], ctrl[:, t, 0]) for t, e in ends]
            self._buffers[key] = _Buffers(told, state, sensors, views)
        return self._buffers[key]

    def _window(self, state: Array, sensordata: Array, ctrl: Array) -> SimView:
        whole, nq, nv = torch.from_numpy(state), self._model.nq, self._model.nv
        return SimView(
            qpos=whole[:, 1 : 1 + nq],
            qvel=whole[:, 1 + nq : 1 + nq + nv],
            ctrl=torch.from_numpy(ctrl),
            time_s=whole[:, 0],
            sensordata=torch.from_numpy(sensordata),
            goal={},
            slices=self._slices,
        )


def _flat(mocap: Array) -> Array:
    """Return poses (n, nmocap, 7) in MuJoCo's order: all positions, then all orientations."""
    num = len(mocap)
    return np.concatenate([mocap[..., :3].reshape(num, -1), mocap[..., 3:].reshape(num, -1)], 1)
