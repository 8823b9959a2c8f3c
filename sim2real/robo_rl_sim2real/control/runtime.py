"""The control loop without a transport: readings in, one command per tick out.

Shapes: n joints or axes, in the order of the contract's actions. Times are in seconds of one
monotonic clock, which the caller passes in. Ticks are numbered control periods.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from robo_rl.core.errors import RoboRlError
from robo_rl_sim2real.control.chunk_scheduler import Chunk
from robo_rl_sim2real.control.commands.safety import Command, Reason, Safety, SafetyInput
from robo_rl_sim2real.control.feedback import Feedback
from robo_rl_sim2real.control.feedback_checks import FeedbackChecker
from robo_rl_sim2real.control.lifecycle import Lifecycle
from robo_rl_sim2real.control.policy_queries import PolicyQueries
from robo_rl_sim2real.control.pose_tracker import PoseTracker
from robo_rl_sim2real.control.target_source import TargetSource
from robo_rl_sim2real.control.teleop.teleop import Teleop
from robo_rl_sim2real.core.graph_problems import GraphProblems
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.readings import Inbox, Values
from robo_rl_sim2real.perception.observer import Observer


class RuntimeParts(NamedTuple):
    """The components of a runtime."""

    observer: Observer
    policy: PolicyQueries
    safety: Safety
    lifecycle: Lifecycle
    teleop: Teleop
    feedback_checker: FeedbackChecker


class TickOutput(NamedTuple):
    """The result of one tick.

    Args:
        command: Command to be sent; None for none.
        state: State after the tick.
        problem: Problem with a reading or a policy output; empty for none.
        target: (n,) the target after the blend of a ramp and before the limits: the policy's, the
            human's during teleoperation, or the start pose on the way home; None for none.
        chunk: The chunk that arrived in this tick, on the tick numbers of ``tick``; None for none.
        instruction: The words that the target follows, or those in effect without one.
    """

    command: Command | None
    state: State
    problem: str = ""
    target: Values | None = None
    chunk: Chunk | None = None
    instruction: str = ""


class Runtime:
    """Runs a policy on a robot, from activation to rest.

    Args:
        parts: Components, not shared with another runtime.
        measured: Reads the measured positions of the commanded joints.
        now_s: Monotonic clock.
        sends: Whether commands reach the robot.
        graph: Returns the problems of the graph.
    """

    def __init__(
        self,
        parts: RuntimeParts,
        measured: Feedback,
        now_s: Callable[[], float],
        *,
        sends: bool = True,
        graph: Callable[[], GraphProblems] = GraphProblems,
    ) -> None:
        self.parts, self.measured, self.now_s, self.life = parts, measured, now_s, parts.lifecycle
        self.topics, self.graph = {*parts.observer.topics, *measured.topics}, graph
        checker, safety, life = parts.feedback_checker, parts.safety, parts.lifecycle
        self._pose = PoseTracker(
            measured, checker, safety, self.topics, life.start, sends=sends, graph=graph
        )
        self._source = TargetSource(
            parts.policy, parts.teleop, safety, life, measured, self._pose, now_s
        )
        self._waiting_s: float | None = None
        self._begun = self._last = self._said = 0
        self._said_s = -np.inf

    @property
    def state(self) -> State:
        """The lifecycle state."""
        return self.life.state

    @property
    def seen_s(self) -> float:
        """Arrival of the oldest reading of the last plausible measurement."""
        return self._pose.seen_s

    def activate(self, inbox: Inbox, number: int) -> None:
        """Activate at this tick, with a ramp from the commanded or else the measured pose.

        Raises:
            TransitionError: Not allowed now, see ``Lifecycle.activate``; or readings are stale or
                implausible.
            SpecError: A reading does not fit.
            RoboRlError: The policy reads an instruction, and there is none.
        """
        if missing := self.parts.observer.missing_instruction(inbox):
            raise RoboRlError(f"cannot activate: {missing}")
        self._begin(inbox, number, "activate", self.life.activate)
        self.parts.observer.reset_history()
        self.parts.teleop.release()

    def home(self, inbox: Inbox, number: int) -> None:
        """Move to the start pose from this tick on; inactive again on arrival or on any problem.

        Raises:
            TransitionError: Not allowed now, see ``Lifecycle.home``; or readings are stale or
                implausible.
            SpecError: A reading does not fit.
        """
        velocity = self.parts.safety.limits.velocity
        self._begin(inbox, number, "home", partial(self.life.home, velocity=velocity))

    def reset(self) -> None:
        """Clear a fault or a stop; without one, accept the place where the robot is measured.

        The place is in question if readings were silent or implausible, and then settled far from
        the last accepted position. An operator who looks at the robot can confirm it.

        Raises:
            TransitionError: The emergency stop is still pressed, or there is nothing to reset.
        """
        checker = self.parts.feedback_checker
        is_left = self.state is State.INACTIVE and not self._pose.is_commanded
        if is_left and checker.is_displaced and not self.life.stopped:
            checker.accept_place()
        else:
            self.life.reset()

    def _begin(self, inbox: Inbox, number: int, what: str, begin: Callable[..., None]) -> None:
        now_s, safety, pose = self.now_s(), self.parts.safety, self._pose
        pose.read(inbox, self.parts.observer)
        pose.demand_fresh(inbox, now_s, what)
        commanded = pose.commanded
        if commanded is None:
            pose.demand_standing(what)
        begin(pose.pos, now_s, at_rest=safety.limiter.at_rest, commanded=commanded)
        self.parts.policy.restart()
        safety.restart(pose.pos if commanded is None else commanded)
        self._begun = self._last = self._said = number
        self._said_s = self.now_s()
        self._waiting_s = None

    def tick(self, inbox: Inbox, number: int) -> TickOutput:
        """Run control period ``number``; the periods since the last call count as missed."""
        self._last = number
        if not self.state.moves:
            return self._resting(problem=self._check_feedback(inbox))
        problem = self._update_target(inbox)
        now_s = self.now_s()
        asked = self._asked(now_s)._replace(readings_regular=self._pose.is_regular(inbox))
        command = self.parts.safety.step(asked, now_s)
        self._said, self._said_s, self._pose.is_commanded = number, now_s, True
        if self._waits_for_first(command.reason):
            problem = self._wait_for_first(now_s) or problem
        else:
            self._waiting_s = None
            self.life.update(command.reason, command.pos, now_s)
        if command.reason is not None:
            self.life.set_hold_command(command.pos)
        return TickOutput(
            command,
            self.state,
            problem or command.detail,
            asked.target,
            self._take_arrived(),
            self._source.instruction,
        )

    def fail(
        self, number: int, unsent: Command | None = None, reason: Reason = Reason.BROKEN
    ) -> TickOutput:
        """Handle an error in a control period: change to faulted and bring the robot to rest.

        Args:
            number: Number of the period.
            unsent: Command that the period computed and may not have sent. It is sent now, because
                the limits hold between consecutive commands.
            reason: Cause of the fault; kept until the policy is activated again.
        """
        if self.state.moves:
            self.parts.safety.latch(reason)
        self._last = number
        self.life.fail()
        return self._resting() if unsent is None else TickOutput(unsent, self.state)

    def _stalled(self, now_s: float) -> bool:
        """Return whether the robot has stopped at its last command, because the next one is late.

        A period is missed once the next one is due; an error or a slow policy can delay a command
        within its own period too. The watchdog has the same rule for positions.
        """
        late_s = now_s - self._said_s
        return self._last - self._said > 1 or late_s > 2.0 * self.parts.safety.limits.dt_s

    def _update_target(self, inbox: Inbox) -> str:
        """Update the source of the target; return the problem."""
        try:
            self._source.update(inbox, self.parts.observer, self._last - self._begun)
        except RoboRlError as error:
            return str(error)
        return inbox.problem(self.topics, self.now_s() - self.parts.safety.max_age_s)

    def _check_feedback(self, inbox: Inbox) -> str:
        """Track the feedback of a robot that is not active; return the problem."""
        try:
            self._pose.read(inbox, self.parts.observer)
        except RoboRlError as error:
            return str(error)
        return ""

    def _take_arrived(self) -> Chunk | None:
        """Return the chunk that arrived in this tick, on the tick numbers of ``tick``."""
        found, begun = self.parts.policy.take_arrived(), self._begun
        return found and found._replace(
            observed_tick=begun + found.observed_tick, arrived_tick=begun + found.arrived_tick
        )

    def _asked(self, now_s: float) -> SafetyInput:
        target, basis_s = self._source.target(self._last - self._begun, now_s)
        graph = self.graph()
        return SafetyInput(
            target=None if target is None else self.life.blend_ramp(target, now_s),
            measured=self._pose.pos,
            measured_s=self._pose.measured_s,
            observed_s=self._pose.seen_s,
            basis_s=basis_s,
            pending_s=self.parts.policy.inference.pending_s(),
            estop=self.life.estopped,
            stop=self.life.stopped,
            stalled=self._stalled(now_s),
            implausible_reason=self._pose.implausible_reason,
            graph_problem=graph.holding,
            is_unheard=bool(graph.commands),
            is_standing=self.parts.feedback_checker.is_standing,
        )

    def _waits_for_first(self, reason: Reason | None) -> bool:
        """Return whether the only problem is that the policy's first chunk is still missing."""
        return (
            reason is Reason.EMPTY
            and self.state is State.RAMPING
            and self.parts.policy.chunks.empty
        )

    def _wait_for_first(self, now_s: float) -> str:
        """Delay the ramp, up to ``max_hold_s``: a late start surprises. Return the problem."""
        if self._waiting_s is None:
            self._waiting_s = now_s
        if now_s - self._waiting_s <= (limit := self.life.cfg.max_hold_s):
            self.life.delay_ramp(now_s)
            return ""
        self.life.deactivate()
        return f"the policy gave no first action within {limit:g} s (lifecycle.max_hold_s)"

    def _resting(self, *, problem: str = "") -> TickOutput:
        """Return the commands to rest after a fault or the end; no command after the final hold."""
        now_s, safety = self.now_s(), self.parts.safety
        stalled = self._stalled(now_s)
        self._said, self._said_s = self._last, now_s
        if self.life.is_silent(now_s, at_rest=safety.limiter.at_rest):
            self._pose.end_commands()
            return TickOutput(None, self.state, problem)
        self._pose.is_commanded, standing = True, self.parts.feedback_checker.is_standing
        silent = SafetyInput(
            *(None, self._pose.pos, self._pose.measured_s, self._pose.seen_s, now_s),
            stalled=stalled,
            implausible_reason=self._pose.implausible_reason,
            is_unheard=bool(self.graph().commands),
            is_standing=standing,
        )
        command = safety.step(silent, now_s)
        return TickOutput(command, self.state, problem or command.detail)
