"""What is commanded after all: the checks between a policy and a robot, in the order of harm.

Shapes: n joints. Times are seconds of one monotonic clock.

finite → e-stop → age of the observation → deadline of the inference → position, velocity,
acceleration, jerk of the command (``limiter``) → distance of command and robot.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import numpy as np
from pydantic import Field

from robo_rl.config import ConfigModel
from robo_rl_sim2real.braking import Array, Limits
from robo_rl_sim2real.limiter import Limiter


class Reason(str, Enum):
    """Why a command is not what the policy asked for; all but the first three latch."""

    STALE = "stale observation"
    LATE = "late inference"
    EMPTY = "no action"
    NOT_FINITE = "action not finite"
    ESTOP = "emergency stop"
    TRACKING = "robot does not follow"

    @property
    def latches(self) -> bool:
        """Whether only a reset ends it."""
        return self in (Reason.NOT_FINITE, Reason.ESTOP, Reason.TRACKING)


class Asked(NamedTuple):
    """What is asked for in a tick, and what is known.

    Args:
        target: (n,) the policy's, None where it has none.
        measured: (n,) positions of the joints.
        observed_s: When that was measured; what was asked for may rest on older ones.
        basis_s: When the oldest observation that ``target`` rests on was measured.
        thinking_s: How long the present inference has taken so far; 0 where none is under way.
        estop: Whether the emergency stop is pressed.
    """

    target: Array | None
    measured: Array
    observed_s: float
    basis_s: float
    thinking_s: float = 0.0
    estop: bool = False


class Command(NamedTuple):
    """What is sent in a tick.

    Args:
        pos: (n,).
        reason: Why it is a way to rest, None where it follows the policy.
        clamped: (n,) how far it is from what was asked for; 0 on a way to rest.
    """

    pos: Array
    reason: Reason | None
    clamped: Array


class Safety:
    """The last word on every command.

    Args:
        cfg: See Config.
        limits: Of the joints.
        pos: (n,) where they are, at rest.
    """

    class Config(ConfigModel):
        """Thresholds.

        Args:
            obs_periods: Age of an observation in control periods beyond which it is stale …
            obs_age_s: … and in seconds, whichever is less.
            basis_age_s: Age of what a chunk rests on beyond which its actions are not played.
            inference_s: How long an inference may take.
            tracking: Distance of command and measured joint, in its unit, that is a fault.
            settled: Distance within which a way to rest starts from the command itself; beyond it
                leads to where the robot is.
            margin: Distance kept from position limits, in the joint's unit.
            speed: Share of the robot's velocity, acceleration and jerk that is used.
        """

        obs_periods: float = Field(default=3.0, gt=0.0)
        obs_age_s: float = Field(default=0.1, gt=0.0)
        basis_age_s: float = Field(default=1.0, gt=0.0)
        inference_s: float = Field(default=0.2, gt=0.0)
        tracking: float = Field(default=0.5, gt=0.0)
        settled: float = Field(default=0.1, ge=0.0)
        margin: float = Field(default=0.0, ge=0.0)
        speed: float = Field(default=1.0, gt=0.0, le=1.0)

    def __init__(self, cfg: Config, limits: Limits, pos: Array) -> None:
        self.cfg, self.limits = cfg, _within(limits, cfg)
        self.limiter = Limiter(self.limits, pos)
        self.latched: Reason | None = None
        self.max_age_s = min(cfg.obs_age_s, cfg.obs_periods * limits.dt_s)

    def restart(self, pos: Array) -> None:
        """Forget latched reasons; the robot is at rest at pos (n,)."""
        self.latched = None
        self.limiter.restart(pos)

    def step(self, asked: Asked, now_s: float) -> Command:
        """The command of this tick."""
        reason = self.latched or self._reason(asked, now_s)
        if reason is not None and reason.latches:
            self.latched = reason
        if reason is not None or asked.target is None:
            pos = self._to_rest(asked.measured)
            return Command(pos, reason or Reason.EMPTY, np.zeros_like(pos))
        pos = self.limiter.step(asked.target)
        return Command(pos, None, np.abs(pos - asked.target))

    def _reason(self, asked: Asked, now_s: float) -> Reason | None:
        """The first check that fails; NaN passes none."""
        cfg, target = self.cfg, asked.target
        checks = (
            (Reason.NOT_FINITE, target is None or bool(np.isfinite(target).all())),
            (Reason.ESTOP, not asked.estop),
            (Reason.STALE, now_s - asked.observed_s <= self.max_age_s),
            (Reason.LATE, asked.thinking_s <= cfg.inference_s),
            (Reason.LATE, target is None or now_s - asked.basis_s <= cfg.basis_age_s),
            (Reason.TRACKING, bool((self._apart(asked.measured) <= cfg.tracking).all())),
            (Reason.EMPTY, target is not None),
        )
        return next((reason for reason, passed in checks if not passed), None)

    def _to_rest(self, measured: Array) -> Array:
        """Brake; where the robot lags far behind the command, go to where it is instead."""
        if (self._apart(measured) > self.cfg.settled).any() and np.isfinite(measured).all():
            return self.limiter.step(measured)
        return self.limiter.brake()

    def _apart(self, measured: Array) -> Array:
        return np.abs(self.limiter.motion.pos - measured)


def _within(limits: Limits, cfg: Safety.Config) -> Limits:
    """The limits that are used: positions less the margin, rates by their share."""
    return Limits(
        low=limits.low + cfg.margin,
        high=limits.high - cfg.margin,
        velocity=cfg.speed * limits.velocity,
        acceleration=cfg.speed * limits.acceleration,
        jerk=cfg.speed * limits.jerk,
        dt_s=limits.dt_s,
    )
