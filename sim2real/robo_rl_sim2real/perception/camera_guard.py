"""Is what a camera shows worth acting on: frozen, black, saturated, or another camera's picture.

Times are seconds of one monotonic clock, taken when a picture arrived. What cannot be told from
pictures alone is not judged: two cameras whose plugs were swapped show good pictures both.
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
"""Every so many rows and columns are looked at for light."""

_MEMORY_S = 1.0
"""For how long a picture is remembered, and a topic that showed another's is refused."""


class _LastImage(NamedTuple):
    """The newest picture of a topic: its digest, since when it is the same, and when it came."""

    digest: int
    since_s: float
    stamp_s: float


class _Duplicate(NamedTuple):
    """Another topic that showed the same, and when that was last seen."""

    topic: str
    stamp_s: float


class CameraGuard:
    """All cameras of a robot, judged together.

    Args:
        cfg: See Config.
    """

    class Config(ConfigModel):
        """Thresholds.

        Args:
            frozen_timeout_s: Time for which the very same picture may come again and again; 0 for ever, as
                a simulated camera's may, which has no noise.
            dark_level: Brightness up to which a value is black, of 255.
            saturation_level: Brightness from which a value is saturated.
            blank_fraction: Share of values that are black, or saturated, in a picture that shows nothing.
            fovy_tolerance: Difference of the vertical field of view from the one in ``robot.yaml``, as a
                share of it, that is another calibration.
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
        """A picture as it came, before it is decoded.

        Raises:
            SpecError: It has been the same for longer than ``frozen_timeout_s``.
        """
        digest = zlib.crc32(np.ascontiguousarray(data).data)
        before = self._seen.get(topic)
        since_s = before.since_s if before and before.digest == digest else stamp_s
        self._seen[topic] = _LastImage(digest, since_s, stamp_s)
        recent = self._recent.get(topic, {}) | {digest: stamp_s}
        self._recent[topic] = {d: at_s for d, at_s in recent.items() if at_s > stamp_s - _MEMORY_S}
        if 0.0 < self.cfg.frozen_timeout_s < stamp_s - since_s:
            raise SpecError(
                "the camera is frozen",
                expected=f"another picture within {self.cfg.frozen_timeout_s:g} s",
                found=f"the same for {stamp_s - since_s:.2f} s",
                hint="cameras.frozen_timeout_s is 0 for a simulated camera",
            )

    def check_exposure(self, image: Values) -> None:
        """A picture (H, W, C), uint8 or depth in m.

        Raises:
            SpecError: It is black, saturated, or measured no depth.
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
        """After ``check_not_frozen``: it is no other camera's.

        Not every picture of a camera is looked at, so that of two topics that show the same some
        pictures have no double: one that had is enough for a while.

        Raises:
            SpecError: Another topic showed the same, byte for byte, within a second.
        """
        ours = self._seen[topic]
        for other, recent in self._recent.items():
            if other != topic and ours.digest in recent:
                self._double[topic] = _Duplicate(other, ours.stamp_s)
        double = self._double.get(topic)
        if double is not None and ours.stamp_s <= double.stamp_s + _MEMORY_S:
            hint = "one camera feeds two topics: look at the drivers' devices"
            raise SpecError(f"the same picture as on '{double.topic}'", hint=hint)
