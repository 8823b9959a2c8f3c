"""A task on a physics backend as a ``VecEnv``: clock, reset, episode end, randomisation.

Shapes: B envs, T control steps of an open-loop sequence, A act_dim, n envs that are reset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Protocol, cast, runtime_checkable

import torch
from torch import Tensor

from robo_rl.api.cameras import CameraSettings, with_images
from robo_rl.api.env import (
    Backend,
    FixedMemoryBackend,
    SimView,
    Step,
    check_groups,
    demand_arrays,
)
from robo_rl.api.renderer import Pending
from robo_rl.api.task import Task, TaskGroup
from robo_rl.config.component import Component, component
from robo_rl.core.errors import CheckpointError, PluginError, RoboRlError, SpecError
from robo_rl.core.seeding import derive
from robo_rl.core.spec import ActSpec
from robo_rl.env.instructions import Instructions
from robo_rl.env.mujoco.domain_randomization import Randomizer
from robo_rl.env.mujoco.episode_clock import EpisodeClock
from robo_rl.env.mujoco.mocap import mocap_poses
from robo_rl.env.mujoco.open_loop import control_steps
from robo_rl.env.mujoco.randomization_terms import RandomizeTerm
from robo_rl.env.mujoco.start_ctrl import start_ctrl, takes_ctrl
from robo_rl.env.mujoco.step_evaluator import StepEvaluator
from robo_rl.env.mujoco.step_health import StepHealth, demand_finite_start
from robo_rl.env.mujoco.task_check.check import check_on_backend
from robo_rl.env.rendering.camera_set import CameraSet
from robo_rl.env.rendering.frames import with_frames
from robo_rl.env.threads import on_one_thread
from robo_rl.env.transitions import with_new_episodes
from robo_rl.language.base import TextEncoder

Obs = dict[str, Tensor]
_PROBES = 32


class SimEnvConfig(CameraSettings):
    """Settings of ``SimEnv``; ``CameraSettings`` has those of its cameras.

    Args:
        backend: The physics engine.
        randomize: Model fields that are drawn for a world at each of its resets.
        text_encoder: Adds the item ``instruction``, for tasks that are told in words what to do.
    """

    backend: Annotated[Component[Backend], component("backends")] = cast(
        "Component[Backend]", "mujoco_cpu"
    )
    randomize: tuple[RandomizeTerm, ...] = ()
    text_encoder: Annotated[Component[TextEncoder], component("text_encoders")] | None = None

    omitted: ClassVar[tuple[str, ...]] = ("text_encoder",)


@runtime_checkable
class _Restorable(Protocol):
    def snapshot(self) -> dict[str, Any]: ...
    def restore(self, snapshot: Mapping[str, Any]) -> None: ...


class SimEnv:
    """B worlds that run a task: a ``VecEnv`` and ``OpenLoop``; ``Branchable`` if the backend is.

    A world is invalid if its state, reward or observation is not finite in float32, or if its
    clock stopped. Such a world is reset. Its transition has ``valid`` False, ``truncated`` True,
    and repeats the last valid observation as ``next_obs``; ``metrics["nan_worlds"]`` counts it.
    Metrics are ``success``, ``nan_worlds``, the reward terms as ``rew/<part>``, and the counters
    of the backend, and the index of the episode's task as ``task`` where there are several.

    With cameras, images are items of the observation. They show ``qpos``, and are therefore one
    physics step newer than the sensors of the same observation.

    Args:
        cfg: Settings.
        task: The task.
        num_envs: B.

    Raises:
        PluginError: The task violates its interface; all violations are listed. Steps raise it
            where a reward or an observation of a valid world is not finite.
        ConfigError: The control period is not a multiple of the physics step, a camera is unknown,
            or ``randomize`` has a term that ``Randomizer`` refuses.
        SpecError: An observation's name is no valid array name, or it has no elements.
        DeviceError: There are cameras, and this machine cannot render.
    """

    Config: ClassVar[type[SimEnvConfig]] = SimEnvConfig

    def __init__(self, cfg: SimEnvConfig, task: Task, num_envs: int) -> None:
        self.cfg, self.task, self.num_envs = cfg, task, num_envs
        self._backend: Backend = cfg.backend.build()
        scene, self._model = check_on_backend(self._backend, task)
        words = self._instructions()
        told = words.add_item(task.obs_spec) if words else task.obs_spec
        self.obs_spec = with_images(told, cfg.cameras)
        demand_arrays(self.obs_spec, type(task).__name__)
        self.act_spec, self.dt_s = task.act_spec, task.dt_s
        device = self.device = self._backend.device
        self._clock = EpisodeClock(task, scene.option.timestep, num_envs, device)
        self.max_episode_steps = self._clock.max_steps
        self._evaluator = StepEvaluator(task, self._clock, words)
        self._randomizer = Randomizer(cfg.randomize, scene) if cfg.randomize else None
        if isinstance(self._backend, FixedMemoryBackend):
            _fit(self._backend, task, scene, self._model)
        self._backend.load(scene, num_envs)
        self._cameras = self._camera_set(scene) if cfg.cameras else None
        self._limits = _limits(task.act_spec, self.device)
        self._generator = torch.Generator().manual_seed(derive("env", 0))
        self._goal: Obs = {}
        self._obs: Obs = {}

    @staticmethod
    def capacity(cfg: SimEnvConfig, task: Task) -> int | None:
        """Return the number of envs that fit the device memory; None without a limit."""
        backend = cfg.backend.build()
        if not isinstance(backend, FixedMemoryBackend):
            return None
        scene, model = check_on_backend(backend, task)
        _fit(backend, task, scene, model)
        return backend.capacity(scene)

    @property
    def restorable(self) -> bool:
        """Whether ``snapshot``, ``restore`` and ``view_at`` work on this backend."""
        return isinstance(self._backend, _Restorable)

    @property
    def task_names(self) -> tuple[str, ...]:
        """See ``MultiTask``."""
        return self.task.task_names if isinstance(self.task, TaskGroup) else ()

    def weigh_tasks(self, weights: Tensor) -> None:
        """See ``MultiTask``.

        Raises:
            PluginError: The task is no group.
        """
        if not isinstance(self.task, TaskGroup):
            raise PluginError("not a group of tasks", where=type(self.task).__name__)
        self.task.weigh_tasks(weights)

    @property
    def view(self) -> SimView:
        """Return the current state; valid until the next call that changes it."""
        return replace(self._backend.view(), goal=self._goal)

    @on_one_thread
    def view_at(self, qpos: Tensor) -> SimView:
        """Return the view of the worlds at other positions qpos (B, nq); the worlds stay as is.

        Velocities, controls, goals and clocks are the current ones, sensors those of ``qpos``.

        Raises:
            PluginError: The backend has no ``snapshot``.
        """
        ids = torch.arange(self.num_envs, device=self.device)
        now, saved = self.view.rows(ids), self._restorable().snapshot()
        mocap = mocap_poses(self._model, self._goal, self.num_envs, saved["fields"])
        ctrl = {"ctrl": now.ctrl} if takes_ctrl(self._backend) else {}
        self._backend.write(ids, qpos.to(now.qpos), now.qvel, None, **mocap, **ctrl)
        moved = self.view.rows(ids)
        self._restorable().restore(saved)
        return replace(moved, ctrl=now.ctrl, time_s=now.time_s)

    @on_one_thread
    def reset(self, seed: int | None = None) -> Obs:
        """Start a new episode in every env; None continues the random stream."""
        if seed is not None:
            self._generator.manual_seed(derive("env", seed))
        return self._restart_all()

    @on_one_thread
    def reset_groups(self, size: int, seed: int) -> Obs:
        """Start a new episode in every env; see ``Groupable``. Groups share randomised fields.

        Raises:
            ConfigError: The envs do not form whole groups.
        """
        check_groups(size, self.num_envs)
        self._generator.manual_seed(derive("env", seed))
        return self._restart_all(copies=size)

    def step(self, act: Tensor) -> Step:
        """Apply act (B, A) for one control step."""
        if not isinstance(act, Tensor):
            expected = f"a tensor ({self.num_envs}, {self.act_spec.size})"
            raise SpecError("action does not fit", expected=expected, found=type(act).__name__)
        return self.rollout(act.unsqueeze(1))[0]

    @on_one_thread
    def rollout(self, act: Tensor, *, frames: int | None = None) -> list[Step]:
        """Apply act (B, T, A) open loop; T steps, ``valid`` False after an episode's end.

        Envs whose episode ended are at the start of their next one when this returns. ``frames`` is
        that of ``OpenLoop``.
        """
        act, obs = self._clip(act), self._obs
        live = torch.ones(self.num_envs, dtype=torch.bool, device=self.device)
        steps: list[Step] = []
        ended: list[Tensor] = []
        qpos: list[Tensor] = []
        with StepHealth(self.task) as health:  # reads at its end, when a GPU has all steps
            for view, act_t in self._advance(act):
                qpos += [view.qpos.clone()] if self._cameras else []
                steps.append(self._evaluator.evaluate(view, act_t, live, obs, health))
                live = live & ~(steps[-1].terminated | steps[-1].truncated)
                ended.append(~live)
                obs = steps[-1].next_obs
        if self._cameras:
            shown = {name: self._obs[name] for name in self.obs_spec.image_names}
            steps = with_frames(steps, torch.stack(qpos), self._cameras, shown, frames)
        self._obs = steps[-1].next_obs
        if bool(ended[-1].any()):
            ids = ended[-1].nonzero().squeeze(1)
            steps = with_new_episodes(steps, ended, ids, self._restart(ids))
            self._obs = steps[-1].obs
        return steps

    def snapshot(self) -> dict[str, Any]:
        """Return the whole state: worlds, clocks, goals, random stream.

        Raises:
            PluginError: The backend has no ``snapshot``.
        """
        return {
            "backend": self._restorable().snapshot(),
            "elapsed": self._clock.elapsed.clone(),
            "goal": {name: value.clone() for name, value in self._goal.items()},
            "generator": self._generator.get_state(),
            **({"looks": self._cameras.looks.snapshot()} if self._cameras else {}),
        }

    def restore(self, snapshot: Mapping[str, Any]) -> Obs:
        """Restore a snapshot; return its observation.

        Raises:
            CheckpointError: It is of another scene or number of envs, or lacks the looks.
        """
        if len(snapshot["elapsed"]) != self.num_envs:
            found = len(snapshot["elapsed"])
            raise CheckpointError("snapshot of other envs", expected=self.num_envs, found=found)
        if self._cameras:
            self._cameras.looks.check(snapshot.get("looks", {}))
        self._restorable().restore(snapshot["backend"])
        self._clock.elapsed = snapshot["elapsed"].to(self.device, copy=True)
        goal = snapshot["goal"].items()
        self._goal = {name: value.to(self.device, copy=True) for name, value in goal}
        self._generator.set_state(snapshot["generator"])
        if self._cameras:
            self._cameras.looks.restore(snapshot.get("looks", {}), self._goal)
        self._obs = self._evaluator.observe(self.view) | self._draw(self.view)()
        return self._obs

    def close(self) -> None:
        """Release the backend's threads and memory, and the renderer."""
        self._backend.close()
        if self._cameras:
            self._cameras.close()

    def _clip(self, act: Tensor) -> Tensor:
        if not self._obs:
            raise RoboRlError("env was not reset", hint="call reset(seed) before the first step")
        if act.ndim != 3 or act.shape[::2] != (self.num_envs, self.act_spec.size):
            expected = f"({self.num_envs}, T, {self.act_spec.size})"
            raise SpecError("action does not fit", expected=expected, found=tuple(act.shape))
        return act.to(self.device).clamp(*self._limits)

    def _advance(self, act: Tensor) -> Iterator[tuple[SimView, Tensor]]:
        substeps = self._clock.substeps
        steps = control_steps(self.task, self._backend, lambda: self.view, act, substeps)
        return ((replace(view, goal=self._goal), act_t) for view, act_t in steps)

    def _restart_all(self, copies: int = 1) -> Obs:
        self._goal = {}
        ids = torch.arange(self.num_envs, device=self.device)
        self._obs = self._restart(ids, copies)
        return self._obs

    def _restart(self, ids: Tensor, copies: int = 1) -> Obs:
        """Put the envs ids (n,) at the start of a new episode; return name → (n, …).

        Each start is drawn once for ``copies`` consecutive envs.

        Raises:
            PluginError: An observation is not finite.
        """
        drawn = len(ids) // copies
        start = self.task.reset(drawn, self._generator)
        fields = self._randomizer.draw(drawn, self._generator) if self._randomizer else None
        if copies > 1:
            start = start.repeat(copies)
            fields = fields and {k: v.repeat_interleave(copies, 0) for k, v in fields.items()}
        mocap = mocap_poses(self._model, start.goal, len(ids), fields)
        ctrl = start_ctrl(self.task, start)
        self._backend.write(ids, start.qpos, start.qvel, fields, **mocap, **ctrl)
        self._clock.start(ids)
        whole = len(ids) == self.num_envs
        if whole:
            goal = start.goal.items()
            self._goal = {name: value.to(self.device, copy=True) for name, value in goal}
        else:
            for name, value in start.goal.items():
                self._goal[name][ids] = value.to(self._goal[name])
        if self._cameras:
            self._cameras.looks.restart(ids, start.goal, fields or {}, self._generator, copies)
        view = self.view if whole else self.view.rows(ids)
        pictures = self._draw(view, None if whole else ids)  # runs concurrently
        obs = self._evaluator.observe(view)
        demand_finite_start(self.task, obs, ids)
        return obs | pictures()

    def _draw(self, view: SimView, ids: Tensor | None = None) -> Pending:
        """Begin to render the worlds ids (n,) of a view (n, …), all where None."""
        return self._cameras.start(view.qpos, ids) if self._cameras else dict  # no images

    def _camera_set(self, scene: Any) -> CameraSet:
        randomized = self._randomizer.fields if self._randomizer else ()
        try:
            return CameraSet(scene, self.cfg, self._backend, self.num_envs, randomized)
        except BaseException:
            self._backend.close()
            raise

    def _instructions(self) -> Instructions | None:
        encoder = self.cfg.text_encoder
        return Instructions(encoder, self.task, self._backend.device) if encoder else None

    def _restorable(self) -> _Restorable:
        if isinstance(self._backend, _Restorable):
            return self._backend
        raise PluginError("backend has no snapshot and restore", where=type(self._backend).__name__)


def _fit(backend: FixedMemoryBackend, task: Task, scene: Any, model: Any) -> None:
    starts = task.reset(_PROBES, torch.Generator().manual_seed(derive("env probe", 0)))
    backend.fit(scene, starts.qpos, starts.qvel, **mocap_poses(model, starts.goal, _PROBES))


def _limits(spec: ActSpec, device: torch.device) -> tuple[Tensor, Tensor]:
    low, high = spec.low or (-torch.inf,) * spec.size, spec.high or (torch.inf,) * spec.size
    return torch.tensor(low, device=device), torch.tensor(high, device=device)
