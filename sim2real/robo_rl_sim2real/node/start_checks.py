"""Decides whether motion may begin: whether the robot stands, is seen, stoppable and commanded."""

from __future__ import annotations

from collections.abc import Callable

from robo_rl.core.errors import RoboRlError
from robo_rl_sim2real.control.runtime import Runtime
from robo_rl_sim2real.core.lifecycle_states import Event, TransitionError, after
from robo_rl_sim2real.messages.readings import Inbox
from robo_rl_sim2real.node.emergency_stop import EmergencyStopListener
from robo_rl_sim2real.node.publisher_monitor import PublisherMonitor
from robo_rl_sim2real.node.requests import PATIENCE_S
from robo_rl_sim2real.watchdog.guard import MotionGuard


class StartChecks:
    """Checks what a start requires, the queries of the graph last.

    Args:
        runtime: Runtime that begins to move the robot.
        inbox: The latest readings.
        estop: The emergency stop.
        publishers: Conditions of the graph.
        guard: Returns the present guard.
        now_s: Monotonic clock.
    """

    def __init__(
        self,
        runtime: Runtime,
        inbox: Inbox,
        estop: EmergencyStopListener,
        publishers: PublisherMonitor,
        guard: Callable[[], MotionGuard],
        now_s: Callable[[], float],
    ) -> None:
        self._runtime, self._inbox, self._estop = runtime, inbox, estop
        self._publishers, self._guard, self._now_s = publishers, guard, now_s

    def demand(self, what: str) -> None:
        """Refuse a start, ``activate`` or ``home``, for which a condition does not hold.

        Raises:
            RoboRlError: A condition does not hold.
        """
        self._demand_still(what)
        if self._estop.is_silent:
            raise RoboRlError(f"cannot {what}: no message on the emergency-stop topic")
        self._demand_readings(what)
        self._guard().check()
        self._estop.begin()
        self._demand_graph(what)
        if self._estop.is_waiting:
            hint = "request it again in a second"
            raise RoboRlError(f"cannot {what}: the emergency stop is being read", hint=hint)

    def _demand_still(self, what: str) -> None:
        """Refuse a start that the state, a stop or motion forbids, before any query of the graph.

        Queries take time, in which a robot that moves would get no command.

        Raises:
            TransitionError: Not allowed now.
        """
        life, limiter = self._runtime.life, self._runtime.parts.safety.limiter
        after(life.state, Event(what))
        if life.stopped:
            why = "the emergency stop was pressed" if life.estopped else "a stop was requested"
            raise TransitionError(f"cannot {what}: {why}", hint="reset")
        if not limiter.at_rest:
            raise TransitionError(f"cannot {what}: the robot is still coming to rest")

    def _demand_readings(self, what: str) -> None:
        """Refuse a start without a reading on every topic; without a robot this comes first."""
        topics, get = self._runtime.topics, self._inbox.get
        silent = [topic for topic in sorted(topics) if get(topic) is None]
        if silent:
            raise RoboRlError(
                f"cannot {what}: observations are not fresh",
                found=f"none on {', '.join(silent)}",
                hint=self._inbox.problem(topics) or None,
            )

    def _demand_graph(self, what: str) -> None:
        """Refuse a start that the graph forbids, or that its answer delays too long."""
        began_s = self._now_s()
        self._publishers.demand(what)
        spent_s = self._now_s() - began_s
        if spent_s > PATIENCE_S:
            raise RoboRlError(
                f"cannot {what}: the graph answered late",
                expected=f"within {PATIENCE_S:g} s",
                found=f"{spent_s:.1f} s",
                hint="request it again",
            )
