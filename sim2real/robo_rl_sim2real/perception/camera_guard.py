"""Detects unusable camera images: frozen, black, saturated, or duplicated from another camera.

Times are arrival times in seconds of one monotonic clock. Faults that images alone cannot reveal
are not detected: two cameras with swapped plugs both give good images.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

import numpy as np
from pydantic import Field

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import SpecError
from robo_rl_sim2real.messages.readings import Values

_SAMPLE = 4
"""Stride of the rows and columns that are checked for exposure."""

_MEMORY_S = 1.0
"""Time for which an image is remembered, and for which a duplicated topic is refused."""


class _LastImage(NamedTuple):
    """The newest image of a topic: its digest, when the last new one came, its arrival time."""

    digest: int
    since_s: float
    stamp_s: float


class _Duplicate(NamedTuple):
    """Another topic with the same image, and the time of the last match."""

    topic: str
    stamp_s: float


class CameraGuard:
    """Checks all cameras of a robot together.

    Args:
        cfg: See Config.
    """

    class Config(ConfigModel):
        """Thresholds.

        Args:
            frozen_timeout_s: Time for which images may repeat; 0 for no limit, as for a
                simulated camera, which has no noise.
            dark_level: Largest value that counts as black, of 255.
            saturation_level: Smallest value that counts as saturated, of 255.
            blank_fraction: Share of black or saturated values from which an image is unusable.
            fovy_tolerance: Largest relative difference of the vertical field of view from the one
                in ``robot.yaml``.
        """

        frozen_timeout_s: float = Field(default=0.5, ge=0.0)
        dark_level: int = Field(default=16, ge=0, le=255)
        saturation_level: int = Field(default=250, ge=0, le=255)
        blank_fraction: float = Field(default=0.99, gt=0.0, le=1.0)
        fovy_tolerance: float = Field(default=0.05, gt=0.0)

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg
        self._seen: dict[str, _LastImage] = {}
        self._recent: dict[str, dict[int, float]] = {}
        self._double: dict[str, _Duplicate] = {}

    def check_not_frozen(self, topic: str, data: Values, stamp_s: float) -> None:
        """Check an image before it is decoded.

        An image of the last second is no new image, because a driver may repeat several buffers.

        Raises:
            SpecError: There was no new image for longer than ``frozen_timeout_s``.
        """
        digest = zlib.crc32(np.ascontiguousarray(data).data)
        before, recent = self._seen.get(topic), self._recent.get(topic, {})
        repeats = before is not None and (digest == before.digest or digest in recent)
        since_s = before.since_s if before is not None and repeats else stamp_s
        self._seen[topic] = _LastImage(digest, since_s, stamp_s)
        recent = recent | {digest: stamp_s}
        self._recent[topic] = {d: at_s for d, at_s in recent.items() if at_s > stamp_s - _MEMORY_S}
        if 0.0 < self.cfg.frozen_timeout_s < stamp_s - since_s:
            raise SpecError(
                "the camera is frozen",
                expected=f"another picture within {self.cfg.frozen_timeout_s:g} s",
                found=f"the same for {stamp_s - since_s:.2f} s",
                hint="cameras.frozen_timeout_s is 0 for a simulated camera",
            )

    def check_exposure(self, image: Values) -> None:
        """Check an image (H, W, C), uint8 or depth in m.

        Raises:
            SpecError: It is black, saturated, or without depth.
        """
        cfg, seen = self.cfg, image[::_SAMPLE, ::_SAMPLE]
        if image.dtype != np.uint8:
            found = ((seen <= 0.0).mean(), "without depth")
        else:
            found = max(
                ((seen <= cfg.dark_level).mean(), "black"),
                ((seen >= cfg.saturation_level).mean(), "saturated"),
            )
        share, what = found
        if share >= cfg.blank_fraction:
            raise SpecError(f"the picture is {what}", found=f"{100 * share:.0f} % of it")

    def check_not_duplicate(self, topic: str) -> None:
        """Check that the image is not another camera's; call it after ``check_not_frozen``.

        Not every image is checked, so some images of a duplicated topic have no match. One match
        therefore counts for ``_MEMORY_S``.

        Raises:
            SpecError: Another topic had the same image, byte for byte, within a second.
        """
        ours = self._seen[topic]
        for other, recent in self._recent.items():
            if other != topic and ours.digest in recent:
                self._double[topic] = _Duplicate(other, ours.stamp_s)
        double = self._double.get(topic)
        if double is not None and ours.stamp_s <= double.stamp_s + _MEMORY_S:
            hint = "one camera feeds two topics: look at the drivers' devices"
            raise SpecError(f"the same picture as on '{double.topic}'", hint=hint)
