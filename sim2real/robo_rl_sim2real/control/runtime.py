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
from robo_rl_sim2real.control.commands.deltas import largest_lead
from robo_rl_sim2real.control.commands.safety import Command, Reason, Safety, SafetyInput
from robo_rl_sim2real.control.feedback import Feedback
from robo_rl_sim2real.control.feedback_checks import FeedbackChecker
from robo_rl_sim2real.control.lifecycle import Lifecycle
from robo_rl_sim2real.control.policy_queries import PolicyInput, PolicyQueries
from robo_rl_sim2real.control.teleop import Teleop, TeleopInput
from robo_rl_sim2real.core.graph_problems import GraphProblems
from robo_rl_sim2real.core.lifecycle_states import State, TransitionError
from robo_rl_sim2real.messages.readings import Inbox, Values
from robo_rl_sim2real.perception.observer import Frame, Observer

_AT_ANOTHER_PLACE = (
    "compare the robot with its readings; if they are right, ask for 'reset' to accept its place"
)


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
        target: (n,) the policy's target; None without an action.
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
        self.seen_s, self.topics = -np.inf, {*parts.observer.topics, *measured.topics}
        self.sends, self.graph = sends, graph
        self._pos = parts.lifecycle.start
        self._commanding = False
        self._left: Values | None = None
        self._waiting_s: float | None = None
        self._begun = self._last = self._said = 0
        self._said_s = -np.inf
        self._grip = TeleopInput(held=False, target=None, received_s=-np.inf)
        self._instruction = ""

    @property
    def state(self) -> State:
        """The lifecycle state."""
        return self.life.state

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
        in_question = self.state is State.INACTIVE and not self._commanding and checker.is_displaced
        if in_question and not self.life.stopped:
            checker.accept_place()
        else:
            self.life.reset()

    def _begin(self, inbox: Inbox, number: int, what: str, begin: Callable[..., None]) -> None:
        now_s, safety = self.now_s(), self.parts.safety
        self._read_inbox(inbox)
        self._demand_fresh(inbox, now_s, what)
        commanded = self._commanded
        if commanded is None:
            self._demand_standing(what)
        begin(self._pos, now_s, at_rest=safety.limiter.at_rest, commanded=commanded)
        self.parts.policy.restart()
        safety.restart(self._pos if commanded is None else commanded)
        self._begun = self._last = self._said = number
        self._said_s = self.now_s()
        self._waiting_s = None

    def tick(self, inbox: Inbox, number: int) -> TickOutput:
        """Run control period ``number``; the periods since the last call count as missed."""
        self._last = number
        if not self.state.moves:
            return self._resting(problem=self._check_feedback(inbox))
        problem = self._update_policy(inbox, number - self._begun)
        now_s = self.now_s()
        asked = self._asked(now_s)._replace(readings_regular=self._regular(inbox))
        command = self.parts.safety.step(asked, now_s)
        self._said, self._said_s, self._commanding = number, now_s, True
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
            self._instruction,
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

    def _update_policy(self, inbox: Inbox, tick: int) -> str:
        """Observe, receive the policy's chunk and request the next one; return the problem."""
        self._instruction = ""
        try:
            if self.state is State.HOMING:
                self._read_inbox(inbox)
            else:
                self._query_policy(inbox, tick)
        except RoboRlError as error:
            return str(error)
        return inbox.problem(self.topics, self.now_s() - self.parts.safety.max_age_s)

    def _check_feedback(self, inbox: Inbox) -> str:
        """Track the feedback of a robot that is not active; return the problem."""
        try:
            self._read_inbox(inbox)
        except RoboRlError as error:
            return str(error)
        return ""

    def _regular(self, inbox: Inbox) -> bool:
        """Return whether the latest readings arrived without gaps above the age limit."""
        limit = self.parts.safety.max_age_s
        return all(inbox.gap_s(topic) <= limit for topic in self.topics)

    def _query_policy(self, inbox: Inbox, tick: int) -> None:
        policy, size = self.parts.policy, len(self.measured.names)
        self._update_teleop(inbox)
        policy.receive(tick, size)
        frame = self._read_inbox(inbox)
        if frame is not None:
            self._instruction = policy.instruction = frame.instruction
        if frame is not None and self.now_s() - self.seen_s <= self.parts.safety.max_age_s:
            obs = self.parts.observer.observation(frame, tick)
            seen = PolicyInput(obs, self.seen_s, frame.instruction)
            running, by_hand = self.state is State.RUNNING, self._grip.held
            policy.request(seen, tick, executes=running, wanted=not by_hand)
            policy.receive(tick, size)

    def _update_teleop(self, inbox: Inbox) -> None:
        """Update teleoperation; its start and its end discard all chunks."""
        limiter, now_s = self.parts.safety.limiter, self.now_s()
        self._grip = TeleopInput(
            held=True, target=None, received_s=now_s
        )  # if the message does not fit
        if self.state is State.HOLDING:
            self.parts.teleop.release()  # deltas are not accumulated while holding
        self._grip = self.parts.teleop.read(inbox, now_s, lambda: limiter.stop)
        changes = self._grip.held is not (self.state is State.TELEOPERATED)
        if changes and self.life.set_teleop(limiter.stop, now_s, held=self._grip.held):
            self.parts.policy.restart()

    def _read_inbox(self, inbox: Inbox) -> Frame | None:
        """Return the current frame; frame and joints are as old as their oldest reading.

        None if a topic is silent so far, or if the feedback is implausible: implausible feedback is
        ignored.
        """
        inbox = inbox.snapshot()
        found = self.measured.sample(inbox)
        if found is not None:
            told = self.parts.safety.limiter.motion.pos if self._commanding and self.sends else None
            self.parts.feedback_checker.check(inbox, found.pos, told)
        frame = self.parts.observer.read_frame(inbox)
        if frame is None or found is None or self._implausible_reason:
            return None
        self._pos = found.pos
        if self._left is not None and not self.parts.feedback_checker.same_pose(
            found.pos, self._left
        ):
            self._left = None  # another source moved the robot: the last command is obsolete
        self.seen_s = min(frame.stamp_s, found.stamp_s)
        return frame

    @property
    def _implausible_reason(self) -> str:
        """Why the measurement is implausible; empty if it is plausible."""
        return self.graph().readings or self.parts.feedback_checker.implausible_reason

    @property
    def _commanded(self) -> Values | None:
        """The commanded pose (n,) if the robot is known to be there; else None.

        It is known while commands are sent, and afterwards until the robot moves away.
        """
        safety = self.parts.safety
        known = self._commanding or (self._left is not None and safety.reached(self._pos))
        return safety.limiter.motion.pos if self.sends and known else None

    def _take_arrived(self) -> Chunk | None:
        """Return the chunk that arrived in this tick, on the tick numbers of ``tick``."""
        found, begun = self.parts.policy.take_arrived(), self._begun
        return found and found._replace(
            observed_tick=begun + found.observed_tick, arrived_tick=begun + found.arrived_tick
        )

    def _asked(self, now_s: float) -> SafetyInput:
        target, basis_s = self._target_and_basis(now_s)
        graph = self.graph()
        return SafetyInput(
            target=None if target is None else self.life.blend_ramp(target, now_s),
            measured=self._pos,
            observed_s=self.seen_s,
            basis_s=basis_s,
            pending_s=self.parts.policy.inference.pending_s(),
            estop=self.life.estopped,
            stop=self.life.stopped,
            stalled=self._stalled(now_s),
            implausible_reason=self._implausible_reason,
            graph_problem=graph.holding,
            is_unheard=bool(graph.commands),
            is_standing=self.parts.feedback_checker.is_standing,
        )

    def _target_and_basis(self, now_s: float) -> tuple[Values | None, float]:
        """Return the target of the active source (None for none) and the time it is based on."""
        if self.state is State.HOMING:
            return self.life.start, self.seen_s
        if self._grip.held:
            return self._grip.target, self._grip.received_s
        due = self.parts.policy.action_at(self._last - self._begun)
        if due is None:
            return None, now_s
        self._instruction = due.instruction
        return self._target(due.act), due.basis_s

    def _target(self, act: Values) -> Values:
        if self.measured.deltas is None:
            return act
        limiter = self.parts.safety.limiter
        pos, lead = limiter.motion.pos, largest_lead(limiter.limits)
        return self.measured.deltas.target(np.clip(limiter.target, pos - lead, pos + lead), act)

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
            if self._commanding:
                self._commanding, self._left = False, self._pos
            return TickOutput(None, self.state, problem)
        self._commanding, standing = True, self.parts.feedback_checker.is_standing
        silent = SafetyInput(
            *(None, self._pos, self.seen_s, now_s),
            stalled=stalled,
            implausible_reason=self._implausible_reason,
            is_unheard=bool(self.graph().commands),
            is_standing=standing,
        )
        command = safety.step(silent, now_s)
        return TickOutput(command, self.state, problem or command.detail)

    def _demand_fresh(self, inbox: Inbox, now_s: float, what: str) -> None:
        limit = self.parts.safety.max_age_s
        silent = [topic for topic in self.topics if inbox.get(topic) is None]
        if not silent and self._implausible_reason:
            raise TransitionError(
                f"cannot {what}: what is measured is in doubt",
                found=self._implausible_reason,
                hint=_AT_ANOTHER_PLACE if self.parts.feedback_checker.is_displaced else None,
            )
        age = now_s - self.seen_s
        if not silent and age <= limit:
            return
        raise TransitionError(
            f"cannot {what}: observations are not fresh",
            expected=f"at most {limit:g} s old",
            found=f"none on {', '.join(sorted(silent))}" if silent else f"{age:.2f} s",
            hint=inbox.problem(self.topics) or None,
        )

    def _demand_standing(self, what: str) -> None:
        if not self.parts.feedback_checker.is_standing:
            raise TransitionError(
                f"cannot {what}: the robot moves",
                expected="several readings in one place",
                hint="wait until it stands, and whatever else commands it is silent",
            )
