"""What is commanded after all: the checks between a policy and a robot, in the order of harm.

Shapes: n joints. Times are seconds of one monotonic clock.

finite → e-stop → doubt of a measurement → age of the observation → deadline of the inference →
position, velocity, acceleration, jerk of the command (``limiter``) → distance of command and robot.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from robo_rl.config.models import ConfigModel
from robo_rl_sim2real.control.commands.braking import Array, Limits
from robo_rl_sim2real.control.commands.limiter import Limiter


class Reason(str, Enum):
    """Why a command is not what the policy asked for."""

    DOUBT = "reading in doubt"
    STALE = "stale observation"
    LATE = "late inference"
    EMPTY = "no action"
    STALLED = "control loop stalled"
    NOT_FINITE = "action not finite"
    ESTOP = "emergency stop"
    STOP = "stop requested"
    UNWATCHED = "watchdog lost"
    BROKEN = "internal error"
    TRACKING = "robot does not follow"

    @property
    def latches(self) -> bool:
        """Whether only a reset ends it."""
        return self in _LATCHES


_LATCHES = (
    *(Reason.NOT_FINITE, Reason.ESTOP, Reason.STOP, Reason.UNWATCHED, Reason.BROKEN),
    Reason.TRACKING,
)


class SafetyInput(NamedTuple):
    """What is asked for in a tick, and what is known.

    Args:
        target: (n,) the policy's, None where it has none.
        measured: (n,) positions of the joints, the last that were believed.
        observed_s: When the oldest reading in use arrived.
        basis_s: When the oldest reading arrived that ``target`` rests on.
        pending_s: How long the present inference has taken so far; 0 where none is under way.
        estop: Whether the emergency stop was pressed since the last reset.
        stop: Whether a stop was requested since the last reset.
        stalled: Whether control periods were missed since the last command.
        implausible_reason: Why what was measured last is not believed; empty where it is.
        readings_regular: Whether readings come as often as they must; a hold ends only if they do.
        is_standing: Whether ``measured`` is where the robot was several times in a row.
    """

    target: Array | None
    measured: Array
    observed_s: float
    basis_s: float
    pending_s: float = 0.0
    estop: bool = False
    stalled: bool = False
    stop: bool = False
    implausible_reason: str = ""
    readings_regular: bool = True
    is_standing: bool = False


class Command(NamedTuple):
    """What is sent in a tick.

    Args:
        pos: (n,).
        reason: Why it is a way to rest, None where it follows the policy.
        clamped: (n,) how far it is from what was asked for; 0 on a way to rest.
        why: The reason in full: which joint, by how much, against which setting; empty where the
            reason says it all.
    """

    pos: Array
    reason: Reason | None
    clamped: Array
    detail: str = ""


class Safety:
    """The last word on every command.

    Args:
        cfg: See Config.
        limits: Of the joints.
        pos: (n,) where they are, at rest.
        follows: (n,) bool, joints that are where they were told to be unless something is wrong. A
            gripper is not: it stops at what it holds, and goes on holding it.
        placed: (n,) bool, joints that go where a command says. What is told velocities goes by as
            much as commands change, from wherever it is: to rest it must not be sent elsewhere.
        names: (n,) of the joints, for what is said of them.
    """

    class Config(ConfigModel):
        """Thresholds. Distances are shares of a joint's range, so that they suit rad and m alike.

        Args:
            max_obs_age_periods: Age of an observation in control periods beyond which it is stale …
            max_obs_age_s: … and in seconds, whichever is less.
            max_chunk_age_s: Age of what a chunk rests on beyond which its actions are not played.
            inference_timeout_s: How long an inference may take once there is no action left.
            max_tracking_error: Distance of command and measured joint that is a fault.
            yield_distance: Distance beyond which a joint that stands beside its command is given way: the
                command goes to where it was measured, once the robot is at rest.
            yield_speed: Share of the velocity limits at which it goes there.
            position_margin: Distance kept from either position limit.
            speed_scale: Share of the robot's velocity, acceleration and jerk that is used.
        """

        max_obs_age_periods: float = Field(default=3.0, gt=0.0)
        max_obs_age_s: float = Field(default=0.1, gt=0.0)
        max_chunk_age_s: float = Field(default=1.0, gt=0.0)
        inference_timeout_s: float = Field(default=0.2, gt=0.0)
        max_tracking_error: float = Field(default=0.15, gt=0.0, le=1.0)
        yield_distance: float = Field(default=0.03, ge=0.0, le=1.0)
        yield_speed: float = Field(default=0.1, gt=0.0, le=1.0)
        position_margin: float = Field(default=0.0, ge=0.0, lt=0.5)
        speed_scale: float = Field(default=1.0, gt=0.0, le=1.0)

    def __init__(
        self,
        cfg: Config,
        limits: Limits,
        pos: Array,
        follows: Array | None = None,
        placed: NDArray[np.bool_] | None = None,
        names: tuple[str, ...] = (),
    ) -> None:
        self._follows = np.ones(len(pos)) if follows is None else follows.astype(np.float64)
        self._placed: NDArray[np.bool_] = np.ones(len(pos), np.bool_) if placed is None else placed
        self.cfg, self.limits, self._range = cfg, _within(limits, cfg), limits.high - limits.low
        self.limiter = Limiter(self.limits, pos)
        self._names = names or tuple(f"joint {number}" for number in range(len(pos)))
        self.latched: Reason | None = None
        self._why = ""
        self.max_age_s = min(cfg.max_obs_age_s, cfg.max_obs_age_periods * limits.dt_s)
        self._rest: Array | None = None
        self._yielded: Array | None = None

    def restart(self, pos: Array) -> None:
        """Forget latched reasons; the robot is at rest at pos (n,)."""
        self.latched = self._rest = self._yielded = None
        self.limiter.restart(pos)

    def latch(self, reason: Reason) -> None:
        """Come to rest for a reason that nothing here sees, until ``restart``."""
        self.latched, self._why = reason, ""

    def step(self, asked: SafetyInput, now_s: float) -> Command:
        """The command of this tick."""
        if asked.stalled:  # the robot has long come to rest at the last command, and stays there
            self.limiter.restart(self.limiter.motion.pos)
            self._rest = self._yielded = None
        reason = self.latched or self._reason(asked, now_s)
        if self.latched is None:
            self._why = self._in_full(reason, asked)
        if reason is not None and reason.latches:
            self.latched = reason
        if reason is not None or asked.target is None:
            pos = self._to_rest(asked, now_s)
            return Command(pos, reason or Reason.EMPTY, np.zeros_like(pos), self._why)
        self._rest = self._yielded = None
        pos = self.limiter.step(asked.target)
        return Command(pos, None, np.abs(pos - asked.target))

    def _reason(self, asked: SafetyInput, now_s: float) -> Reason | None:
        """The first check that fails; NaN passes none."""
        cfg, target = self.cfg, asked.target
        checks = (
            (Reason.NOT_FINITE, target is None or bool(np.isfinite(target).all())),
            (Reason.ESTOP, not asked.estop),
            (Reason.STOP, not asked.stop),
            (Reason.DOUBT, not asked.implausible_reason),
            (
                Reason.STALE,
                self._fresh(asked, now_s) and (asked.readings_regular or self._rest is None),
            ),
            (Reason.LATE, target is not None or asked.pending_s <= cfg.inference_timeout_s),
            (Reason.LATE, target is None or now_s - asked.basis_s <= cfg.max_chunk_age_s),
            (Reason.TRACKING, bool((self._apart(asked.measured) <= cfg.max_tracking_error).all())),
            (Reason.STALLED, not asked.stalled),
            (Reason.EMPTY, target is not None),
        )
        return next((reason for reason, passed in checks if not passed), None)

    def _fresh(self, asked: SafetyInput, now_s: float) -> bool:
        return now_s - asked.observed_s <= self.max_age_s

    def _to_rest(self, asked: SafetyInput, now_s: float) -> Array:
        """A step of the way to rest: along the last commands, then slowly to where it is held up.

        What is measured is a target only once the robot stands, was measured there several times,
        and is believed. It is chosen once, so that a joint that sags leads nowhere.
        """
        if self._rest is None:
            self._rest = self.limiter.stop
        if self._yielded is None and self.limiter.at_rest:
            self._yielded = self._held_up(asked, now_s)
        if self._yielded is not None:
            step = self.cfg.yield_speed * self.limits.velocity * self.limits.dt_s
            pos = self.limiter.motion.pos
            self._rest = pos + np.clip(self._yielded - pos, -step, step)
        return self.limiter.step(self._rest, standing=True)

    def _held_up(self, asked: SafetyInput, now_s: float) -> Array | None:
        """Where joints that do not reach their command stand; None where that is not known."""
        if asked.implausible_reason or not asked.is_standing or not self._fresh(asked, now_s):
            return None
        lags = self._placed & (self._apart(asked.measured) > self.cfg.yield_distance)
        return np.where(lags, asked.measured, self.limiter.motion.pos)

    def _in_full(self, reason: Reason | None, asked: SafetyInput) -> str:
        if reason is Reason.DOUBT:
            return asked.implausible_reason
        if reason is not Reason.TRACKING:
            return ""
        worst = int(np.nan_to_num(self._apart(asked.measured), nan=np.inf).argmax())
        apart, limit = np.abs(self.limiter.motion.pos - asked.measured), self.cfg.max_tracking_error
        return (
            f"'{self._names[worst]}' is {apart[worst]:.3f} from its command, at most"
            f" {limit * self._range[worst]:.3f} (safety.max_tracking_error={limit:g} of its range)"
        )

    def reached(self, measured: Array) -> bool:
        """Whether a robot measured there (n,) is where it was told to be, but for its sag."""
        return bool((self._apart(measured) <= self.cfg.yield_distance).all())

    def _apart(self, measured: Array) -> Array:
        """Distance of command and measured joint, as a share of its range."""
        return np.abs(self.limiter.motion.pos - measured) / self._range * self._follows


def _within(limits: Limits, cfg: Safety.Config) -> Limits:
    """The limits that are used: positions less the margin, rates by their share."""
    margin = cfg.position_margin * (limits.high - limits.low)
    return Limits(
        low=limits.low + margin,
        high=limits.high - margin,
        velocity=cfg.speed_scale * limits.velocity,
        acceleration=cfg.speed_scale * limits.acceleration,
        jerk=cfg.speed_scale * limits.jerk,
        dt_s=limits.dt_s,
    )
