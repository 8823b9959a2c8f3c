"""The one environment interface: simulators, Gymnasium, learnt worlds and twins.

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
"""How the names of metrics begin that are parts of the reward."""


class Step(NamedTuple):
    """What one env step gives back.

    Args:
        obs: Name → (B, …): the observation to act on next; of the new episode where the env was
            reset.
        next_obs: Name → (B, …): the true successor of the action, also where the env was reset.
        rew: (B,) float32.
        terminated: (B,) bool, the task ended: no bootstrap.
        truncated: (B,) bool, a time limit or a cut: bootstrap from ``next_obs``.
        valid: (B,) bool, False where no transition took place: a world that went NaN and was
            reset, or an env whose episode ended earlier in the open-loop sequence.
        metrics: Name → (B,) float32, ``success`` among them where the task defines it.
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
        """(B,) bool; nowhere where the task defines none."""
        return successes(self.metrics, self.terminated)


def successes(metrics: Mapping[str, Tensor], flags: Tensor) -> Tensor:
    """Which of the envs (B,) succeeded; none where nobody says.

    Args:
        metrics: Of a step.
        flags: (B,) bool, any.
    """
    return metrics["success"] > 0 if "success" in metrics else flags & ~flags


class VecEnv(Protocol):
    """A vectorised world that runs a task, with same-step reset.

    ``reset(seed)`` starts every env anew; with None the random streams go on. Actions outside
    ``act_spec``'s limits are clipped here and nowhere else.
    """

    num_envs: int
    obs_spec: ObsSpec
    act_spec: ActSpec
    dt_s: float
    max_episode_steps: int
    device: torch.device

    def reset(self, seed: int | None = None) -> dict[str, Tensor]:
        """Start a new episode in every env; returns name → (B, …)."""
        ...

    def step(self, act: Tensor) -> Step:
        """Apply act (B, A) for one control step."""
        ...

    def close(self) -> None:
        """Free what the env holds; calling it twice is harmless."""
        ...


@runtime_checkable
class OpenLoop(Protocol):
    """An env that runs a sequence of actions at once and waits where an episode ends in it."""

    def rollout(self, act: Tensor) -> list[Step]:
        """Apply act (B, T, A) open loop; T steps, ``valid`` False behind an episode's end."""
        ...


@runtime_checkable
class Branchable(Protocol):
    """An env whose whole state can be kept and put back: physics, clocks, random streams."""

    def snapshot(self) -> dict[str, Any]:
        """The state as nested dicts of tensors and JSON values."""
        ...

    def restore(self, snapshot: Mapping[str, Any]) -> dict[str, Tensor]:
        """Put a state back; returns the observation that it stands at."""
        ...


@runtime_checkable
class Groupable(Protocol):
    """An env that can start several episodes alike, so that what follows can be compared."""

    def reset_groups(self, size: int, seed: int) -> dict[str, Tensor]:
        """Start a new episode in every env, those of a group from one state; name → (B, …).

        Envs i·size … i·size+size−1 are a group. Their futures may differ by their actions, and by
        what a world draws during an episode.
        """
        ...


def check_groups(size: int, num_envs: int) -> None:
    """Envs must make whole groups.

    Raises:
        ConfigError: They do not.
    """
    if size < 1 or num_envs % size:
        expected = f"a multiple of the group size {size}"
        raise ConfigError("envs do not make whole groups", expected=expected, found=num_envs)


def demand_arrays(obs_spec: ObsSpec, where: object) -> None:
    """Observations are arrays of a dataset later, and inputs of a graph.

    Raises:
        SpecError: A name cannot name an array, or an observation has no elements.
    """
    if strange := [name for name in obs_spec.items if not is_array_name(name)]:
        expected = "names of letters, digits, _ and -"
        raise SpecError("observations", where=where, expected=expected, found=strange)
    if empty := [name for name, spec in obs_spec.items.items() if not spec.size]:
        raise SpecError("observations without elements", where=where, found=empty)


@dataclass(frozen=True)
class SimView:
    """The backend-neutral batched state that a task reads.

    Sensor values lag ``qpos`` by one physics step on every backend, because physics computes them
    before it integrates; do not mix the two in one observation. ``goal`` holds what the task drew
    at reset and what a real robot would be told.

    Args:
        qpos: (B, nq); qvel: (B, nv); ctrl: (B, nu), the last control applied; time_s: (B,).
        sensordata: (B, nsensordata).
        goal: Name → (B, …).
        slices: Sensor name → its slice of ``sensordata``.
        counters: Name → (B,) what the backend counts in a control step, shown as metrics: contacts
            that found no room, say.
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
        """The named sensors side by side, (B, sum of their sizes); KeyError if one is unknown."""
        import torch

        parts = [self.sensordata[:, self.slices[name]] for name in names]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def rows(self, ids: Tensor) -> SimView:
        """Of the worlds ids (n,) alone, copied."""
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
    """What computes the physics. Everything else about simulation is in ``SimEnv``.

    ``device`` and ``dtype`` are those of the states that its views show.
    """

    device: torch.device
    dtype: torch.dtype

    def load(self, scene: Any, num_envs: int) -> None:
        """Compile a ``MjSpec`` and make num_envs worlds of it, at the model's default state."""
        ...

    def write(
        self,
        ids: Tensor,
        qpos: Tensor,
        qvel: Tensor,
        fields: Mapping[str, Tensor] | None = None,
        mocap: Tensor | None = None,
    ) -> None:
        """Put the worlds ids (n,) at qpos (n, nq), qvel (n, nv), time 0, their past forgotten.

        ``fields`` are per-world model fields, name → (n, …) in the model's own shape. ``mocap``
        (n, nmocap, 7) says where the mocap bodies stand until the next ``write``: position, and
        quaternion wxyz; None leaves them where the model has them.
        """
        ...

    def step(self, ctrl: Tensor, substeps: int) -> list[SimView]:
        """Advance by T control steps, ctrl (B, T, nu), of ``substeps`` physics steps; T views."""
        ...

    def view(self) -> SimView:
        """The worlds as they stand, sensors up to date (a forward pass after ``write``)."""
        ...

    def close(self) -> None:
        """Free threads and memory."""
        ...


@runtime_checkable
class FixedMemoryBackend(Backend, Protocol):
    """A backend whose memory for contacts is of a fixed size that the task's starts can tell."""

    def fit(self, scene: Any, qpos: Tensor, qvel: Tensor, mocap: Tensor | None = None) -> None:
        """Find the sizes before ``load``, from start states qpos (n, nq), qvel (n, nv).

        ``mocap`` is as in ``write``, of a scene that has mocap bodies.
        """
        ...

    def capacity(self, scene: Any) -> int:
        """How many worlds of these sizes fit the memory that is free."""
        ...
