"""What draws the worlds of an env: states in, pictures out.

Shapes: B worlds, n of them drawn at once, nq positions; a picture is (3, height, width) uint8.

A picture is of the positions. Sensors lag these by one physics step (see ``SimView``), so that a
picture is one physics step newer than the sensors beside it. All else that can be seen is a *look*:
a field of the model that differs by world (``cam_pos``, ``light_diffuse``, ``geom_rgba``, …), or
where a mocap body stands (``mocap_pos``, ``mocap_quat``). Looks change at resets alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from torch import Tensor

    from robo_rl.api.cameras import CameraItem

Pictures = dict[str, "Tensor"]
"""Item of the observation → (n, 3, height, width) uint8, on the env's device."""

Pending = Callable[[], Pictures]
"""Waits for pictures that are being drawn."""

MOCAP = ("mocap_pos", "mocap_quat")
"""Looks that are no fields of the model: of every mocap body, (n, nmocap, 3) m and (…, 4) wxyz."""


class Renderer(Protocol):
    """Draws up to B worlds at a time."""

    def start(self, qpos: Tensor, looks: Mapping[str, Tensor]) -> Pending:
        """Begin to draw n worlds.

        Args:
            qpos: (n, nq), finite.
            looks: Name → (n, …) in the model's own shape, the same names at every call.

        Returns:
            What waits for the pictures, which are the caller's own.

        Raises:
            DeviceError: What draws is gone; also while waiting.
        """
        ...

    def close(self) -> None:
        """Free what it holds; calling it twice is harmless."""
        ...


@runtime_checkable
class RenderingBackend(Protocol):
    """A ``Backend`` that draws on its own device."""

    def renderer(
        self, model: Any, cameras: Sequence[CameraItem], num_envs: int, looks: Sequence[str]
    ) -> Renderer:
        """What draws num_envs worlds of a ``mujoco.MjModel``.

        Raises:
            ConfigError: It cannot draw that.
        """
        ...
