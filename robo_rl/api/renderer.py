"""The renderer interface: states of the worlds in, images out.

Shapes: B worlds, n of them rendered at once, nq positions; an image is (3, height, width) uint8.

An image shows the positions. Sensors lag the positions by one physics step (see ``SimView``), so
an image is one physics step newer than the sensors of the same observation. Every other visible
property is a *look*: a model field that differs by world (``cam_pos``, ``light_diffuse``,
``geom_rgba``, …) or the pose of a mocap body (``mocap_pos``, ``mocap_quat``). Looks change only
at resets.
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
"""A call that waits for images in progress and returns them."""

MOCAP = ("mocap_pos", "mocap_quat")
"""Looks that are no model fields: mocap positions (n, nmocap, 3) m and wxyz (n, nmocap, 4)."""


class Renderer(Protocol):
    """Renders up to B worlds at a time."""

    def start(self, qpos: Tensor, looks: Mapping[str, Tensor]) -> Pending:
        """Begin to render n worlds.

        Args:
            qpos: (n, nq), finite.
            looks: Name → (n, …) in the model's own shape, the same names at every call.

        Returns:
            A call that waits for the images. The caller owns the images.

        Raises:
            DeviceError: The rendering process is gone; also raised while waiting.
        """
        ...

    def close(self) -> None:
        """Release the resources; a second call does nothing."""
        ...


@runtime_checkable
class RenderingBackend(Protocol):
    """A ``Backend`` that renders on its own device."""

    def renderer(
        self, model: Any, cameras: Sequence[CameraItem], num_envs: int, looks: Sequence[str]
    ) -> Renderer:
        """Return a renderer of num_envs worlds of a ``mujoco.MjModel``.

        Raises:
            ConfigError: The backend cannot render these cameras.
        """
        ...
