"""Physics without ``SimEnv``, as a baseline for benchmarks.

A baseline steps the model of an env from the env's own start states, with all memory allocated
beforehand.
"""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

TURN_STEPS = 10


class BarePhysics(Protocol):
    """Bare physics of B worlds; ``substeps`` physics steps make a control step."""

    substeps: int

    def begin(self, state: Mapping[str, Tensor]) -> None:
        """Set the states from a snapshot of an env's backend."""
        ...

    def run(self, ctrl: Sequence[Tensor]) -> None:
        """Step with one call per control step, ctrl (B, nu)."""
        ...

    def close(self) -> None:
        """Release the resources."""
        ...


class BareRollout:
    """``mujoco.rollout`` with one thread per core and without its checks."""

    def __init__(self, env: Any) -> None:
        import mujoco
        from mujoco.rollout import Rollout

        model = env.task.scene().compile()
        threads = len(os.sched_getaffinity(0))
        self.substeps = round(env.dt_s / model.opt.timestep)
        self.models, self.pool = [model] * env.num_envs, Rollout(nthread=threads)
        self.data = [mujoco.MjData(model) for _ in range(threads)]
        shape = env.num_envs, self.substeps
        self.states = np.empty(
            (*shape, mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS))
        )
        self.ctrl = np.empty((*shape, model.nu))
        self.sensors = np.empty((*shape, model.nsensordata))

    def begin(self, state: Mapping[str, Tensor]) -> None:
        """Set the states; see ``BarePhysics``."""
        self.state = state["state"].numpy().copy()

    def run(self, ctrl: Sequence[Tensor]) -> None:
        """Step; see ``BarePhysics``."""
        for ctrl_t in ctrl:
            self.ctrl[...] = ctrl_t.numpy()[:, None]
            self.pool.rollout(
                self.models,
                self.data,
                self.state,
                self.ctrl,
                skip_checks=True,
                nstep=self.substeps,
                state=self.states,
                sensordata=self.sensors,
            )
            self.state[...] = self.states[:, -1]

    def close(self) -> None:
        """Stop the threads."""
        self.pool.close()


class BareWarp:
    """``mujoco_warp.step`` in a captured graph, with the env's own buffer sizes."""

    def __init__(self, env: Any) -> None:
        import mujoco_warp as mjw
        import warp as wp

        from robo_rl.env.warp.memory import make_data, put_model

        self.wp, self.mjw, model = wp, mjw, env.task.scene().compile()
        self.substeps = round(env.dt_s / model.opt.timestep)
        self.device = wp.device_from_torch(env.device)
        sizes = env._backend.sizes
        with wp.ScopedDevice(self.device):
            self.model = put_model(model)
            self.data = make_data(model, env.num_envs, sizes)
            self.ctrl = wp.to_torch(self.data.ctrl)
            self.physics()  # loads the kernels
            with wp.ScopedCapture() as capture:
                self.physics()
            self.graph = capture.graph

    def physics(self) -> None:
        """Run one control step."""
        for _ in range(self.substeps):
            self.mjw.step(self.model, self.data)

    def begin(self, state: Mapping[str, Tensor]) -> None:
        """Set the states; see ``BarePhysics``."""
        for name in ("qpos", "qvel", "qacc_warmstart", "time"):
            self.wp.to_torch(getattr(self.data, name)).copy_(state[name])

    def run(self, ctrl: Sequence[Tensor]) -> None:
        """Step; see ``BarePhysics``."""
        with self.wp.ScopedDevice(self.device):
            for ctrl_t in ctrl:
                self.ctrl.copy_(ctrl_t)
                self.wp.capture_launch(self.graph)

    def close(self) -> None:
        """Do nothing; there are no threads."""


SIDES: dict[str, Callable[[Any], BarePhysics]] = {
    "mujoco_cpu": BareRollout,
    "mujoco_warp": BareWarp,
}


def turns(
    env: Any, bare: BarePhysics, steps: int, generator: torch.Generator
) -> tuple[float, float]:
    """Return the seconds of SimEnv and of bare physics for so many steps, alternating."""
    from robo_rl.testing.env import random_act

    seconds = [0.0, 0.0]
    act = random_act(env.act_spec, env.num_envs, steps, generator).to(env.device)
    for turn, acts in enumerate(act.split(TURN_STEPS, dim=1)):
        bare.begin(env.snapshot()["backend"])
        ctrl = [env.task.control(env.view, a).clone() for a in acts.unbind(1)]
        sides = partial(run_sim, env, acts), partial(bare.run, ctrl)
        for side in (0, 1) if turn % 2 else (1, 0):
            seconds[side] += timed(sides[side], env.device)
    return seconds[0], seconds[1]


def run_sim(env: Any, act: Tensor) -> None:
    """Run all steps of act (B, T, A), one call each."""
    for act_t in act.unbind(1):
        env.step(act_t)


def timed(run: Callable[[], object], device: torch.device | None = None) -> float:
    """Return the wall time in s, until the device has finished."""
    settle(device)
    start = time.perf_counter()
    run()
    settle(device)
    return time.perf_counter() - start


def settle(device: torch.device | None) -> None:
    """Wait for a GPU's pending work."""
    if device is not None and device.type == "cuda":
        torch.cuda.synchronize(device)
