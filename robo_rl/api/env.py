"""The one environment interface, for simulators, Gymnasium, learnt world models and twins.

Shapes: B envs, T control steps of an open-loop sequence, A act_dim. Tensors are torch tensors on
``device``; actions and observations are in physical units (SI).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from robo_rl.core.errors import ConfigError, SpecError
from robo_rl.core.suggestions import is_array_name

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from robo_rl.core.spec import ActSpec, ObsSpec


REW_PART = "rew/"
"""Prefix of the names of reward terms in ``Step.metrics``."""

TASK = "task"
"""The metric of an env of several tasks, and the goal of a task group: index of the task."""

_GRAPH_NAMES = ("noise", "planned", "weight", "act")
"""Other inputs and the output of an exported graph, see ``robo_rl.bundle.graph_checks``."""


class Step(NamedTuple):
    """The result of one env step; its tensors are the receiver's, see ``VecEnv``.

    Args:
        obs: Name → (B, …): the observation to act on next. Where the env was reset, it is the
            first observation of the new episode.
        next_obs: Name → (B, …): the true successor of the action, also where the env was reset.
        rew: (B,) float32.
        terminated: (B,) bool, the task ended: no bootstrap.
        truncated: (B,) bool, a time limit or a cut: bootstrap from ``next_obs``.
        valid: (B,) bool, False where no transition took place: the world became NaN and was
            reset, or the episode ended at a previous step of the open-loop sequence.
        metrics: Name → (B,) float32; includes ``success`` where the task defines it.
    """

    obs: dict[str, Tensor]
    next_obs: dict[str, Tensor]
    rew: Tensor
    terminated: Tensor
    truncated: Tensor
    valid: Tensor
    metrics: dict[str, Tensor]

    @property
    def success(self) -> Tensor:
        """Return the success flags, (B,) bool; all False where the task defines no success."""
        return successes(self.metrics, self.terminated)


def successes(metrics: Mapping[str, Tensor], flags: Tensor) -> Tensor:
    """Return the success flags (B,), all False where the metrics have none.

    Args:
        metrics: Metrics of a step.
        flags: Any (B,) bool tensor; it gives the shape and the device.
    """
    return metrics["success"] > 0 if "success" in metrics else flags & ~flags


class VecEnv(Protocol):
    """A vectorised world that runs a task, with same-step reset.

    ``reset(seed)`` starts a new episode in every env and seeds the random streams; None continues
    the streams. The env is the only place that clips actions to the limits of ``act_spec``.

    The tensors that ``reset`` and ``step`` return belong to the receiver, which may keep them. The
    env writes to none of them later; an env with buffers of its own returns copies. The same holds
    for the actions of the receiver: an env that keeps ``act`` copies it.
    """

    num_envs: int
    obs_spec: ObsSpec
    act_spec: ActSpec
    dt_s: float
    max_episode_steps: int
    device: torch.device

    def reset(self, seed: int | None = None) -> dict[str, Tensor]:
        """Start a new episode in every env; return the observation, name → (B, …)."""
        ...

    def step(self, act: Tensor) -> Step:
        """Apply act (B, A) for one control step."""
        ...

    def close(self) -> None:
        """Release the resources of the env; a second call does nothing."""
        ...


@runtime_checkable
class OpenLoop(Protocol):
    """An env that executes an action sequence in one call and waits where an episode ends."""

    def rollout(self, act: Tensor, *, frames: int | None = None) -> list[Step]:
        """Apply act (B, T, A) open loop; return T steps, ``valid`` False after an episode's end.

        Args:
            act: Actions.
            frames: Number of an env's last valid steps whose images are read; None for all. Images
                of its other steps may be older ones, since rendering is slow.
        """
        ...


@runtime_checkable
class Branchable(Protocol):
    """An env that can save and restore its whole state: physics, clocks, random streams."""

    def snapshot(self) -> dict[str, Any]:
        """Return the state as nested dicts of tensors and JSON values."""
        ...

    def restore(self, snapshot: Mapping[str, Any]) -> dict[str, Tensor]:
        """Restore a saved state; return its observation."""
        ...


def can_branch(env: Any) -> bool:
    """Return whether an env is ``Branchable``, and what it wraps is.

    A wrapper, or an env with a choice of backends, says so by its property ``restorable``.
    """
    return isinstance(env, Branchable) and bool(getattr(env, "restorable", True))


@runtime_checkable
class Groupable(Protocol):
    """An env that can start several episodes from one state, for group-relative comparison."""

    def reset_groups(self, size: int, seed: int) -> dict[str, Tensor]:
        """Start a new episode in every env, one start state per group; return name → (B, …).

        Envs i·size … i·size+size−1 form group i. Episodes of a group differ by their actions and by
        the random draws of the world during the episode.
        """
        ...


@runtime_checkable
class MultiTask(Protocol):
    """An env whose worlds run several tasks; ``Step.metrics["task"]`` is the index of each's."""

    @property
    def task_names(self) -> tuple[str, ...]:
        """Names of the tasks; empty for one task."""
        ...

    def weigh_tasks(self, weights: Tensor) -> None:
        """Draw the tasks of new episodes in proportion to weights (number of tasks,)."""
        ...


def task_names(env: Any) -> tuple[str, ...]:
    """Return the names of an env's tasks; empty for an env of one task."""
    return env.task_names if isinstance(env, MultiTask) else ()


def check_groups(size: int, num_envs: int) -> None:
    """Check that the envs form whole groups.

    Raises:
        ConfigError: ``num_envs`` is no multiple of ``size``.
    """
    if size < 1 or num_envs % size:
        expected = f"a multiple of the group size {size}"
        raise ConfigError("envs do not make whole groups", expected=expected, found=num_envs)


def demand_arrays(obs_spec: ObsSpec, where: object) -> None:
    """Check that every observation can be a dataset array and a graph input.

    Raises:
        SpecError: A name is no valid array name or that of another input or output of a graph, or
            an observation has no elements.
    """
    if strange := [name for name in obs_spec.items if not is_array_name(name)]:
        expected = "names of letters, digits, _ and -"
        raise SpecError("observations", where=where, expected=expected, found=strange)
    if taken := [name for name in obs_spec.items if name in _GRAPH_NAMES]:
        expected = f"names other than those of a policy's graph: {', '.join(_GRAPH_NAMES)}"
        hint = "rename them in the env, or in a wrapper around it"
        raise SpecError("observations", where=where, expected=expected, found=taken, hint=hint)
    if empty := [name for name, spec in obs_spec.items.items() if not spec.size]:
        raise SpecError("observations without elements", where=where, found=empty)


@dataclass(frozen=True)
class SimView:
    """The backend-neutral batched state that a task reads.

    Sensor values lag ``qpos`` by one physics step on every backend, because physics computes them
    before it integrates; do not mix the two in one observation. ``goal`` holds the values that
    the task drew at reset and that a real robot would receive as its command.

    Args:
        qpos: (B, nq); qvel: (B, nv); ctrl: (B, nu), the last control applied; time_s: (B,).
        sensordata: (B, nsensordata).
        goal: Name → (B, …).
        slices: Sensor name → its slice of ``sensordata``.
        counters: Name → (B,), event counts of the backend in a control step, reported as metrics;
            for example, contacts that did not fit the buffer.
    """

    qpos: Tensor
    qvel: Tensor
    ctrl: Tensor
    time_s: Tensor
    sensordata: Tensor
    goal: Mapping[str, Tensor]
    slices: Mapping[str, slice]
    counters: Mapping[str, Tensor] = field(default_factory=dict[str, "Tensor"])

    def sensor(self, *names: str) -> Tensor:
        """Return the named sensors concatenated, (B, sum of sizes); KeyError for unknown names."""
        import torch

        parts = [self.sensordata[:, self.slices[name]] for name in names]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def rows(self, ids: Tensor) -> SimView:
        """Return a copy of the view for the worlds ids (n,)."""
        return replace(
            self,
            qpos=self.qpos[ids],
            qvel=self.qvel[ids],
            ctrl=self.ctrl[ids],
            time_s=self.time_s[ids],
            sensordata=self.sensordata[ids],
            counters={name: value[ids] for name, value in self.counters.items()},
            goal={name: value[ids] for name, value in self.goal.items()},
        )


class Backend(Protocol):
    """A physics engine behind ``SimEnv``, which implements the rest of the simulation.

    ``device`` and ``dtype`` are those of the tensors in its views.
    """

    device: torch.device
    dtype: torch.dtype

    def load(self, scene: Any, num_envs: int) -> None:
        """Compile a ``MjSpec`` and create num_envs worlds in the model's default state."""
        ...

    def write(
        self,
        ids: Tensor,
        qpos: Tensor,
        qvel: Tensor,
        fields: Mapping[str, Tensor] | None = None,
        mocap: Tensor | None = None,
        ctrl: Tensor | None = None,
    ) -> None:
        """Set the worlds ids (n,) to qpos (n, nq), qvel (n, nv), time 0, and clear their history.

        ``fields`` are per-world model fields, name → (n, …) in the model's own shape. ``mocap``
        (n, nmocap, 7) holds the poses of the mocap bodies until the next ``write``: position and
        quaternion wxyz. None keeps the poses of the model. ``ctrl`` (n, nu) is the last control
        that the next view shows; None shows zeros.
        """
        ...

    def step(self, ctrl: Tensor, substeps: int) -> list[SimView]:
        """Advance by T control steps, ctrl (B, T, nu), of ``substeps`` physics steps; T views."""
        ...

    def view(self) -> SimView:
        """Return the current state, with sensors up to date (a forward pass after ``write``)."""
        ...

    def close(self) -> None:
        """Release threads and memory."""
        ...


@runtime_checkable
class FixedMemoryBackend(Backend, Protocol):
    """A backend with contact buffers of fixed size, derived from the task's start states."""

    def fit(self, scene: Any, qpos: Tensor, qvel: Tensor, mocap: Tensor | None = None) -> None:
        """Find the buffer sizes before ``load``, from start states qpos (n, nq), qvel (n, nv).

        ``mocap`` is as in ``write``; required for a scene with mocap bodies.
        """
        ...

    def capacity(self, scene: Any) -> int:
        """Return the number of worlds of these sizes that fit the free memory."""
        ...
