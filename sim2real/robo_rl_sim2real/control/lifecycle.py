"""The policy's lifecycle: when it may start, resume, and must stop sending commands.

Shapes: n joints. Times are in seconds of one monotonic clock.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from robo_rl.config.models import ConfigModel
from robo_rl_sim2real.control.commands.safety import Reason
from robo_rl_sim2real.core.lifecycle_states import Event, State, TransitionError, after
from robo_rl_sim2real.messages.readings import Values

_PEAK = 1.875
"""Ratio of peak to mean speed of the minimum-jerk path (Flash and Hogan 1985)."""


class Lifecycle:
    """The lifecycle state and the time of its last change.

    Args:
        cfg: See Config.
        names: (n,) joint names, for error messages.
        start: (n,) start pose; the policy may start only near it.
        units: (n,) ``"m"`` or ``"rad"``; empty for rad.
    """

    class Config(ConfigModel):
        """Starting, resuming and ending.

        Args:
            ramp_s: Duration of the blend from the robot's pose to the policy's target at
                activation.
            resume_s: Duration of that blend after a hold or after teleoperation. A hold within a
                blend is followed by what is left of it, if that is longer.
            start_tolerance_rad: Largest distance of a revolute joint from its start at activation,
                rad.
            start_tolerance_m: Largest distance of a prismatic joint from its start at activation,
                m.
            home_speed: Largest speed of a joint while homing, as a share of its velocity limit.
            max_hold_s: A hold that lasts longer ends in inactive.
            final_hold_s: Time for which commands keep a resting robot in place after a fault or
                deactivation.
        """

        ramp_s: float = Field(default=2.0, ge=0.0)
        resume_s: float = Field(default=0.3, ge=0.0)
        start_tolerance_rad: float = Field(default=0.3, gt=0.0)
        start_tolerance_m: float = Field(default=0.05, gt=0.0)
        home_speed: float = Field(default=0.2, gt=0.0, le=1.0)
        max_hold_s: float = Field(default=5.0, gt=0.0)
        final_hold_s: float = Field(default=1.0, ge=0.0)

    def __init__(
        self, cfg: Config, names: tuple[str, ...], start: Values, units: tuple[str, ...] = ()
    ) -> None:
        self.cfg, self.names, self.start = cfg, names, start
        far = {"m": cfg.start_tolerance_m, "rad": cfg.start_tolerance_rad}
        self.within = np.array([far[unit] for unit in units or ("rad",) * len(names)])
        self.state, self.pressed = State.UNCONFIGURED, False
        self.presses = self.trips = self._forgiven = self._forgiven_presses = 0
        self._home, self._ramp_s, self._resume_s = start, 0.0, cfg.resume_s
        self._since_s = self._rested_s = -np.inf

    def set_estop(self, pressed: bool) -> None:
        """Record that the emergency stop is pressed or released; a press is kept until a reset."""
        self.presses += pressed and not self.pressed  # repeated messages are one press
        self.pressed = pressed

    def request_stop(self) -> None:
        """Record a stop request; it is kept until a reset."""
        self.trips += 1

    @property
    def stop_count(self) -> int:
        """Number of stops so far, by the emergency stop or by a request."""
        return self.presses + self.trips

    @property
    def estopped(self) -> bool:
        """Whether the emergency stop is pressed, or was pressed since the last reset."""
        return self.pressed or self.presses > self._forgiven_presses

    @property
    def stopped(self) -> bool:
        """Whether the emergency stop or a stop request is active since the last reset."""
        return self.pressed or self.stop_count > self._forgiven

    def configure(self) -> None:
        """Change to inactive; the caller has checked and warmed up all components."""
        self.state = after(self.state, Event.CONFIGURE)

    def cleanup(self) -> None:
        """Change to unconfigured."""
        self.state = after(self.state, Event.CLEANUP)

    def activate(
        self, measured: Values, now_s: float, *, at_rest: bool, commanded: Values | None = None
    ) -> None:
        """Start the policy with a ramp from the commanded pose, or else from the measured pose.

        Args:
            measured: (n,) measured pose.
            now_s: Present time.
            at_rest: Whether all joints are at rest.
            commanded: (n,) commanded pose; None without a command.

        Raises:
            TransitionError: Not allowed now: stopped, still moving, or not near the start.
        """
        going = self._begun(Event.ACTIVATE, at_rest=at_rest)
        self._demand_near(measured)
        self.state = going
        self._ramp(measured if commanded is None else commanded, self.cfg.ramp_s, now_s)

    def home(
        self,
        measured: Values,
        now_s: float,
        velocity: Values,
        *,
        at_rest: bool,
        commanded: Values | None = None,
    ) -> None:
        """Start homing: a straight line in joint space with a minimum-jerk speed profile.

        Args:
            measured: (n,) measured pose.
            now_s: Present time.
            velocity: (n,) velocity limits.
            at_rest: Whether all joints are at rest.
            commanded: (n,) commanded pose; None without a command.

        Raises:
            TransitionError: Not allowed now: stopped, active, or still moving.
        """
        self.state = self._begun(Event.HOME, at_rest=at_rest)
        fastest = self.cfg.home_speed * velocity / _PEAK
        begin = measured if commanded is None else commanded
        self._ramp(begin, float((np.abs(self.start - begin) / fastest).max()), now_s)

    def deactivate(self) -> None:
        """Change to inactive; the robot comes to rest, and then commands end."""
        self.state = after(self.state, Event.DEACTIVATE)
        self._rested_s = np.inf

    def reset(self) -> None:
        """Change from faulted to inactive, or clear an emergency stop or stop request.

        Raises:
            TransitionError: The emergency stop is still pressed, or there is nothing to reset.
        """
        # A stop that another thread adds meanwhile is not cleared.
        presses, trips = self.presses, self.trips
        if self.pressed:
            raise TransitionError("cannot reset: the emergency stop is pressed")
        if not (self.stopped and self.state is State.INACTIVE):
            self.state = after(self.state, Event.RESET)
        self._forgiven, self._forgiven_presses = presses + trips, presses

    def fail(self) -> None:
        """Change to faulted if the robot is being moved."""
        if self.state.moves:
            self.state = after(self.state, Event.FAULT)
            self._rested_s = np.inf

    def set_teleop(self, stop: Values, now_s: float, *, held: bool) -> bool:
        """Start or end teleoperation; return whether it started now.

        Args:
            stop: (n,) pose in which braking from the present motion ends.
            now_s: Present time.
            held: Whether a human operator controls the robot.
        """
        if held and self.state in (State.RAMPING, State.RUNNING):
            self.state = after(self.state, Event.TAKE_OVER)
            self._ramp(stop, 0.0, now_s)
            return True
        if not held and self.state is State.TELEOPERATED:
            self.state = after(self.state, Event.HAND_BACK)
            self._ramp(stop, self.cfg.resume_s, now_s)
        return False

    def update(self, reason: Reason | None, command: Values, now_s: float) -> None:
        """Change the state according to the result of a tick."""
        if reason is not None and reason.latches:
            self.fail()
        elif self.state is State.HOMING:
            if reason is not None or self._share(now_s) >= 1.0:
                self.deactivate()
        elif reason is not None and self.state is not State.HOLDING:
            left_s = (1.0 - self._share(now_s)) * self._ramp_s
            self._resume_s = max(self.cfg.resume_s, left_s if self.state is State.RAMPING else 0.0)
            self.state, self._since_s = after(self.state, Event.HOLD), now_s
        elif reason is not None and now_s - self._since_s > self.cfg.max_hold_s:
            self.deactivate()
        elif reason is None and self.state is State.HOLDING:
            self.state = after(self.state, Event.RECOVER)
            self._ramp(command, self._resume_s, now_s)
        elif self.state is State.RAMPING and self._share(now_s) >= 1.0:
            self.state = after(self.state, Event.RAMPED)

    def blend_ramp(self, target: Values, now_s: float) -> Values:
        """Return the target blended with the pose at the start of the ramp."""
        share = self._share(now_s) if self.state is not State.HOLDING else 0.0
        if self.state is State.HOMING:
            share = share**3 * (10.0 - 15.0 * share + 6.0 * share**2)
        return target if share >= 1.0 else self._home + share * (target - self._home)

    def delay_ramp(self, now_s: float) -> None:
        """Begin the ramp now, because the policy has no target yet."""
        self._since_s = now_s

    def set_hold_command(self, command: Values) -> None:
        """Set the start of the ramp that follows a hold."""
        self._home = command

    def is_silent(self, now_s: float, *, at_rest: bool) -> bool:
        """Return whether the final hold of a robot that is not active has ended."""
        if not at_rest:
            return False
        if self._rested_s == np.inf:
            self._rested_s = now_s
        return now_s - self._rested_s >= self.cfg.final_hold_s

    def _ramp(self, home: Values, ramp_s: float, now_s: float) -> None:
        self._home, self._ramp_s, self._since_s = home, ramp_s, now_s

    def _share(self, now_s: float) -> float:
        """Return the completed share of the ramp, in [0, 1]."""
        return 1.0 if self._ramp_s <= 0.0 else min((now_s - self._since_s) / self._ramp_s, 1.0)

    def _begun(self, event: Event, *, at_rest: bool) -> State:
        going = after(self.state, event)
        if self.stopped:
            why = "the emergency stop was pressed" if self.estopped else "a stop was requested"
            raise TransitionError(f"cannot {event.value}: {why}", hint="reset")
        if not at_rest:
            raise TransitionError(f"cannot {event.value}: the robot is still coming to rest")
        return going

    def _demand_near(self, measured: Values) -> None:
        apart = np.abs(measured - self.start)
        if (apart <= self.within).all():
            return
        worst = int(np.nan_to_num(apart / self.within, nan=np.inf).argmax())
        raise TransitionError(
            f"cannot activate: joint '{self.names[worst]}' is not near its start",
            expected=f"{self.start[worst]:.3f} ± {self.within[worst]:g}",
            found=f"{measured[worst]:.3f}",
            hint="ask for 'home', or bring it there",
        )
