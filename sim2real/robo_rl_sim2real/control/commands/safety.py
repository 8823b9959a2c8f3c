"""Safety checks between the policy and the robot, in the order of severity.

Shapes: n joints. Times are in seconds of one monotonic clock.

finite → e-stop → stop → stall → plausibility of the measurement → graph → age of the observation →
inference deadline → age of the action's basis → tracking error → action left; then position,
velocity, acceleration, jerk of the command (``limiter``). The tracking error comes before the age
of an observation that is old although the joints were just measured, and before the graph if the
robot moves while nobody receives the commands. After a hold by the graph it follows the graph.
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
    """Why a command differs from the policy's target."""

    DOUBT = "reading in doubt"
    GRAPH = "graph not as required"
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
        """Whether only a reset clears it."""
        return self in _LATCHES


_LATCHES = (
    *(Reason.NOT_FINITE, Reason.ESTOP, Reason.STOP, Reason.UNWATCHED, Reason.BROKEN),
    Reason.TRACKING,
)


class SafetyInput(NamedTuple):
    """The target of a tick and the state it is checked against.

    Args:
        target: (n,) the policy's target; None without an action.
        measured: (n,) joint positions, the last plausible ones.
        measured_s: Arrival time of the oldest reading in ``measured``.
        observed_s: Arrival time of the oldest reading in use, those of the policy included.
        basis_s: Arrival time of the oldest reading that ``target`` depends on.
        pending_s: Time that the present inference has taken so far; 0 without one.
        estop: Whether the emergency stop was pressed since the last reset.
        stop: Whether a stop was requested since the last reset.
        stalled: Whether control periods were missed since the last command.
        implausible_reason: Why the last measurement is implausible; empty if it is plausible.
        graph_problem: Why the robot must stand although the measurement is plausible; empty for
            none.
        is_unheard: Whether no node receives the commands.
        readings_regular: Whether readings arrive without gaps; a hold ends only if they do.
        is_standing: Whether the robot was measured at ``measured`` several times in a row.
    """

    target: Array | None
    measured: Array
    measured_s: float
    observed_s: float
    basis_s: float
    pending_s: float = 0.0
    estop: bool = False
    stalled: bool = False
    stop: bool = False
    implausible_reason: str = ""
    graph_problem: str = ""
    is_unheard: bool = False
    readings_regular: bool = True
    is_standing: bool = False


class Command(NamedTuple):
    """The command of a tick.

    Args:
        pos: (n,) commanded positions.
        reason: Why the command brings the robot to rest; None if it follows the policy.
        clamped: (n,) distance from the target; 0 on the way to rest.
        detail: Details of the reason: joint, deviation and setting; empty if there are none.
    """

    pos: Array
    reason: Reason | None
    clamped: Array
    detail: str = ""


class Safety:
    """Checks every target and returns the command that is sent.

    Args:
        cfg: See Config.
        limits: Limits of the joints.
        pos: (n,) joint positions, at rest.
        follows: (n,) bool, joints whose tracking error is checked. A gripper is not checked: it
            stops at the object that it holds, and keeps holding it.
        placed: (n,) bool, joints with position commands. A joint with velocity commands moves by
            the change of the command from any position. A command to rest must therefore not move
            to its measured position.
        names: (n,) joint names, for error messages.
    """

    class Config(ConfigModel):
        """Thresholds. Distances are shares of a joint's range, so they apply to rad and m alike.

        Args:
            max_obs_age_periods: Largest age of an observation, in control periods.
            max_obs_age_s: Largest age of an observation, in seconds; the smaller of both applies.
            max_chunk_age_s: Largest age of the observation behind an action that is executed.
            inference_timeout_s: Longest inference once no action is left.
            max_tracking_error: Distance between command and measured joint above which the policy
                faults.
            yield_distance: Tracking error above which the command yields. Once the robot is at
                rest, the command moves to the joint's measured position.
            yield_speed: Speed of that motion, as a share of the velocity limits.
            position_margin: Distance kept from either position limit.
            speed_scale: Share of the robot's velocity, acceleration and jerk limits that is used.
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
        self._unheard_place: Array | None = None
        self._moved, self._held_by_graph = "", False

    def restart(self, pos: Array) -> None:
        """Clear latched reasons; the robot is at rest at pos (n,)."""
        self.latched = self._rest = self._yielded = None
        self._unheard_place, self._moved, self._held_by_graph = None, "", False
        self.limiter.restart(pos)

    def latch(self, reason: Reason) -> None:
        """Come to rest for a reason from outside these checks, until ``restart``."""
        self.latched, self._why = reason, ""

    def step(self, asked: SafetyInput, now_s: float) -> Command:
        """Return the command of this tick."""
        if asked.stalled:  # the robot is at rest at the last command
            self.limiter.restart(self.limiter.motion.pos)
            self._rest = self._yielded = None
        if asked.is_unheard:
            self._follow_moved(asked, now_s)
        else:
            self._unheard_place = None
        reason = self.latched or self._reason(asked, now_s)
        if self.latched is None:
            self._why = self._in_full(reason, asked)
        held = self._held_by_graph and reason is not None
        self._held_by_graph = held or bool(asked.graph_problem)
        if reason is not None and reason.latches:
            self.latched = reason
        if reason is not None or asked.target is None:
            pos = self._to_rest(asked, now_s)
            return Command(pos, reason or Reason.EMPTY, np.zeros_like(pos), self._why)
        self._rest = self._yielded = None
        pos = self.limiter.step(asked.target)
        return Command(pos, None, np.abs(pos - asked.target))

    def _reason(self, asked: SafetyInput, now_s: float) -> Reason | None:
        """Return the first failed check; NaN fails every check."""
        cfg, target = self.cfg, asked.target
        follows = bool((self._apart(asked.measured) <= cfg.max_tracking_error).all())
        recent = self._is_recent(asked.observed_s, now_s)
        seen = recent and (asked.readings_regular or self._rest is None)
        # an old image hides no collision
        unseen = not seen and self._is_recent(asked.measured_s, now_s)
        checks = (
            (Reason.NOT_FINITE, target is None or bool(np.isfinite(target).all())),
            (Reason.ESTOP, not asked.estop),
            (Reason.STOP, not asked.stop),
            (Reason.STALLED, not asked.stalled),
            (Reason.DOUBT, not asked.implausible_reason),
            (Reason.TRACKING, not self._moved),
            (Reason.GRAPH, not asked.graph_problem),
            (Reason.TRACKING, not (self._held_by_graph and self._lagging(asked).any())),
            (Reason.TRACKING, follows or not unseen),
            (Reason.STALE, seen),
            (Reason.LATE, target is not None or asked.pending_s <= cfg.inference_timeout_s),
            (Reason.LATE, target is None or now_s - asked.basis_s <= cfg.max_chunk_age_s),
            (Reason.TRACKING, follows),
            (Reason.EMPTY, target is not None),
        )
        return next((reason for reason, passed in checks if not passed), None)

    def _is_recent(self, stamp_s: float, now_s: float) -> bool:
        return now_s - stamp_s <= self.max_age_s

    def _is_measured(self, asked: SafetyInput, now_s: float) -> bool:
        """Return whether the measured positions are plausible and recent."""
        return not asked.implausible_reason and self._is_recent(asked.measured_s, now_s)

    def _to_rest(self, asked: SafetyInput, now_s: float) -> Array:
        """Return the next command on the way to rest.

        It brakes along the last commands first. Then it moves slowly to the measured position of a
        joint that cannot reach its command. The measurement is used only if it is plausible and the
        robot was measured at rest several times. It is chosen once, so a sagging joint does not
        pull the command along.
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
        """Return the positions (n,) of joints that stopped short of their command, else None."""
        if not asked.is_standing or not self._is_measured(asked, now_s):
            return None
        return np.where(self._lagging(asked), asked.measured, self.limiter.motion.pos)

    def _lagging(self, asked: SafetyInput) -> NDArray[np.bool_]:
        """Return the joints (n,) that are farther from their command than sag explains."""
        return self._placed & (self._apart(asked.measured) > self.cfg.yield_distance)

    def _follow_moved(self, asked: SafetyInput, now_s: float) -> None:
        """Keep the command where a robot is that moves while no node receives the commands.

        A receiver that comes back is thus told to stay. The motion is not the policy's, so that
        the policy continues only after a reset. Distances count from the first place in that time,
        since a robot whose controller died stopped short of its command.
        """
        if not self._is_measured(asked, now_s):
            return
        place = asked.measured if self._unheard_place is None else self._unheard_place
        far = self._share_of_range(asked.measured - place) > self.cfg.yield_distance
        moved = self._placed & far
        self._unheard_place = asked.measured if moved.any() else place
        if moved.any():
            self._moved = ", ".join(f"'{self._names[i]}'" for i in np.flatnonzero(moved))
            self.limiter.restart(np.where(moved, asked.measured, self.limiter.motion.pos))
            self._rest = self._yielded = None

    def _in_full(self, reason: Reason | None, asked: SafetyInput) -> str:
        if reason is Reason.DOUBT:
            return asked.implausible_reason
        if reason is Reason.GRAPH:
            return asked.graph_problem
        if reason is not Reason.TRACKING:
            return ""
        if self._moved:
            return f"{self._moved} moved while no node received the commands"
        worst = int(np.nan_to_num(self._apart(asked.measured), nan=np.inf).argmax())
        apart = np.abs(self.limiter.motion.pos - asked.measured)
        setting = "yield_distance" if self._held_by_graph else "max_tracking_error"
        limit = getattr(self.cfg, setting)
        after = " after a problem of the graph" if self._held_by_graph else ""
        return (
            f"'{self._names[worst]}' is {apart[worst]:.3f} from its command{after}, at most"
            f" {limit * self._range[worst]:.3f} (safety.{setting}={limit:g} of its range)"
        )

    def reached(self, measured: Array) -> bool:
        """Return whether the measured pose (n,) is the commanded one, up to sag."""
        return bool((self._apart(measured) <= self.cfg.yield_distance).all())

    def _apart(self, measured: Array) -> Array:
        """Return the tracking error per joint, as a share of its range."""
        return self._share_of_range(self.limiter.motion.pos - measured)

    def _share_of_range(self, distance: Array) -> Array:
        """Return distances (n,) as shares of the joints' ranges, 0 where none is checked."""
        return np.abs(distance) / self._range * self._follows


def _within(limits: Limits, cfg: Safety.Config) -> Limits:
    """Return the limits in use: positions less the margin, rates times their share."""
    margin = cfg.position_margin * (limits.high - limits.low)
    return Limits(
        low=limits.low + margin,
        high=limits.high - margin,
        velocity=cfg.speed_scale * limits.velocity,
        acceleration=cfg.speed_scale * limits.acceleration,
        jerk=cfg.speed_scale * limits.jerk,
        dt_s=limits.dt_s,
    )
