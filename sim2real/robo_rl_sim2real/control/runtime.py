"""The control loop's inside: readings in, one command a tick out; without a transport.

Shapes: n joints or axes, in the order of the contract's actions. Times are seconds of one monotonic
clock, which is handed in. Ticks are numbered control periods.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from robo_rl.core.errors import RoboRlError, SpecError
from robo_rl_sim2real.control.chunk_scheduler import Chunk, ChunkScheduler
from robo_rl_sim2real.control.commands.safety import Command, Reason, Safety, SafetyInput
from robo_rl_sim2real.control.feedback import Feedback
from robo_rl_sim2real.control.feedback_checks import FeedbackChecker
from robo_rl_sim2real.control.inference import InferenceRequest, InferenceRunner
from robo_rl_sim2real.control.lifecycle import Lifecycle
from robo_rl_sim2real.control.teleop import Teleop, TeleopInput
from robo_rl_sim2real.core.lifecycle_states import State, TransitionError
from robo_rl_sim2real.messages.readings import Inbox, Values
from robo_rl_sim2real.perception.observer import Frame, Observer


class RuntimeParts(NamedTuple):
    """What a runtime is made of."""

    observer: Observer
    inference: InferenceRunner
    chunks: ChunkScheduler
    safety: Safety
    lifecycle: Lifecycle
    teleop: Teleop
    feedback_checker: FeedbackChecker


class TickOutput(NamedTuple):
    """What came of a tick.

    Args:
        command: What is to be sent, None for nothing.
        state: The state after it.
        problem: What was wrong with a reading or an answer, empty for nothing.
        target: (n,) what the policy asked for, None where it had nothing to say.
        chunk: The chunk that it answered with, on the numbers of ``tick``; None for none.
    """

    command: Command | None
    state: State
    problem: str = ""
    target: Values | None = None
    chunk: Chunk | None = None


class Runtime:
    """A policy on a robot, from activation to rest.

    Args:
        parts: Its own, not shared.
        measured: Where what is commanded is measured.
        now_s: Monotonic clock.
        sends: Whether its commands reach the robot.
        rivals: What is wrong with who publishes the readings, empty for nothing.
    """

    def __init__(
        self,
        parts: RuntimeParts,
        measured: Feedback,
        now_s: Callable[[], float],
        *,
        sends: bool = True,
        rivals: Callable[[], str] = lambda: "",
    ) -> None:
        self.parts, self.measured, self.now_s, self.life = parts, measured, now_s, parts.lifecycle
        self.seen_s, self.topics = -np.inf, {*parts.observer.topics, *measured.topics}
        self.sends, self.rivals = sends, rivals
        self._pos = parts.lifecycle.start
        self._commanding = False
        self._left: Values | None = None
        self._begun = self._last = self._said = self._epoch = 0
        self._grip = TeleopInput(held=False, target=None, received_s=-np.inf)
        self._inferred: Chunk | None = None

    @property
    def state(self) -> State:
        """As it stands."""
        return self.life.state

    def activate(self, inbox: Inbox, number: int) -> None:
        """Begin at that tick, ramping from where the robot was told to be, or else where it is.

        Raises:
            TransitionError: Not now; see ``Lifecycle.activate``; or readings are stale or in doubt.
            SpecError: A reading does not fit.
        """
        self._begin(inbox, number, "activate", self.life.activate)
        self.parts.observer.reset_history()
        self.parts.teleop.release()

    def home(self, inbox: Inbox, number: int) -> None:
        """Go to the start from that tick on; inactive again once there, or if anything is amiss.

        Raises:
            TransitionError: Not now; see ``Lifecycle.home``; or readings are stale or in doubt.
            SpecError: A reading does not fit.
        """
        velocity = self.parts.safety.limits.velocity
        self._begin(inbox, number, "home", partial(self.life.home, velocity=velocity))

    def _begin(self, inbox: Inbox, number: int, what: str, begin: Callable[..., None]) -> None:
        now_s, safety = self.now_s(), self.parts.safety
        self._read_inbox(inbox)
        self._demand_fresh(inbox, now_s, what)
        commanded = self._commanded
        if commanded is None:
            self._demand_standing(what)
        begin(self._pos, now_s, at_rest=safety.limiter.at_rest, commanded=commanded)
        self.parts.chunks.clear()
        safety.restart(self._pos if commanded is None else commanded)
        self._begun = self._last = self._said = number
        self._epoch += 1

    def tick(self, inbox: Inbox, number: int) -> TickOutput:
        """The control period of that number; what is in between was missed."""
        stalled, self._last = number - self._said > 1, number
        if not self.state.moves:
            return self._resting(stalled=stalled, problem=self._check_feedback(inbox))
        problem = self._update_policy(inbox, number - self._begun)
        now_s = self.now_s()
        asked = self._asked(now_s, stalled=stalled)._replace(readings_regular=self._regular(inbox))
        command = self.parts.safety.step(asked, now_s)
        self._said, self._commanding = number, True
        if not self._waits_for_first(command.reason):
            self.life.update(command.reason, command.pos, now_s)
        if command.reason is not None:
            self.life.set_hold_command(command.pos)
        inferred, self._inferred = self._inferred, None
        return TickOutput(command, self.state, problem or command.detail, asked.target, inferred)

    def fail(
        self, number: int, unsent: Command | None = None, reason: Reason = Reason.BROKEN
    ) -> TickOutput:
        """Something broke in the period of that number: come to rest, at fault.

        Args:
            number: Of the period.
            unsent: The command that was worked out in it and is not known to have been sent: it is
                what is to be sent, since limits hold for commands that follow each other.
            reason: What broke; it stays the reason until the policy begins anew.
        """
        if self.state.moves:
            self.parts.safety.latch(reason)
        stalled, self._last = number - self._said > 1, number
        self.life.fail()
        return self._resting(stalled=stalled) if unsent is None else TickOutput(unsent, self.state)

    def _update_policy(self, inbox: Inbox, tick: int) -> str:
        """Look, hear the policy's answer, ask it again; says what went wrong."""
        try:
            if self.state is State.HOMING:
                self._read_inbox(inbox)
            else:
                self._query_policy(inbox, tick)
        except RoboRlError as error:
            return str(error)
        return inbox.problem(self.topics, self.now_s() - self.parts.safety.max_age_s)

    def _check_feedback(self, inbox: Inbox) -> str:
        """Follow what is measured of a robot that is not active; says what is wrong with it."""
        try:
            self._read_inbox(inbox)
        except RoboRlError as error:
            return str(error)
        return ""

    def _regular(self, inbox: Inbox) -> bool:
        """Whether the latest readings came as often as they must."""
        limit = self.parts.safety.max_age_s
        return all(inbox.gap_s(topic) <= limit for topic in self.topics)

    def _query_policy(self, inbox: Inbox, tick: int) -> None:
        self._update_teleop(inbox)
        self._receive_chunk(tick)
        frame = self._read_inbox(inbox)
        if frame is not None and self.now_s() - self.seen_s <= self.parts.safety.max_age_s:
            self._request_inference(frame, tick)
            self._receive_chunk(tick)

    def _update_teleop(self, inbox: Inbox) -> None:
        """Whether a human has the robot in hand; the policy begins anew after that."""
        limiter, now_s = self.parts.safety.limiter, self.now_s()
        self._grip = TeleopInput(
            held=True, target=None, received_s=now_s
        )  # if what came does not fit
        if self.state is State.HOLDING:
            self.parts.teleop.release()  # what is done to a robot that holds does not add up
        self._grip = self.parts.teleop.read(inbox, now_s, lambda: limiter.stop)
        changes = self._grip.held is not (self.state is State.TELEOPERATED)
        if changes and self.life.set_teleop(limiter.stop, now_s, held=self._grip.held):
            self.parts.chunks.clear()
            self._epoch += 1

    def _read_inbox(self, inbox: Inbox) -> Frame | None:
        """The moment's frame; it and the joints are as old as the oldest reading in them.

        None where a topic was silent so far, or what was measured is in doubt: then it is as if
        nothing had been measured.
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
            self._left = None  # moved by somebody else: what it was told last says nothing
        self.seen_s = min(frame.stamp_s, found.stamp_s)
        return frame

    @property
    def _implausible_reason(self) -> str:
        """Why what was measured is not believed; empty where it is."""
        return self.rivals() or self.parts.feedback_checker.implausible_reason

    @property
    def _commanded(self) -> Values | None:
        """(n,) where the robot was told to be, and is for all that is known; else None.

        That is so while commands are being sent, and as long as it has not moved since the last.
        """
        safety = self.parts.safety
        known = self._commanding or (self._left is not None and safety.reached(self._pos))
        return safety.limiter.motion.pos if self.sends and known else None

    def _request_inference(self, frame: Frame, tick: int) -> None:
        obs, planner = self.parts.observer.observation(frame, tick), self.parts.inference
        if planner.idle and self.parts.chunks.wants_query(tick) and not self._grip.held:
            # On a ramp or while it holds, the robot does not do what is planned.
            plan = self.parts.chunks.plan(tick) if self.state is State.RUNNING else None
            planner.submit(InferenceRequest(obs, tick, self.seen_s, self._epoch, plan))

    def _receive_chunk(self, tick: int) -> None:
        found = self.parts.inference.poll()
        if found is None or found.question.epoch != self._epoch:
            return
        asked, size = found.question, len(self.measured.names)
        if found.act.ndim != 2 or found.act.shape[1] != size:
            raise SpecError("action chunk", expected=f"(H, {size})", found=found.act.shape)
        self.parts.chunks.add(chunk := Chunk(found.act, asked.tick, tick, asked.observed_s))
        begun = self._begun
        self._inferred = chunk._replace(observed_tick=begun + asked.tick, arrived_tick=begun + tick)

    def _asked(self, now_s: float, *, stalled: bool) -> SafetyInput:
        target, basis_s = self._target_and_basis(now_s)
        return SafetyInput(
            target=None if target is None else self.life.blend_ramp(target, now_s),
            measured=self._pos,
            observed_s=self.seen_s,
            basis_s=basis_s,
            pending_s=self.parts.inference.pending_s(),
            estop=self.life.estopped,
            stop=self.life.stopped,
            stalled=stalled,
            implausible_reason=self._implausible_reason,
            is_standing=self.parts.feedback_checker.is_standing,
        )

    def _target_and_basis(self, now_s: float) -> tuple[Values | None, float]:
        """The target of whoever has the say, None where there is none; and what it rests on."""
        if self.state is State.HOMING:
            return self.life.start, self.seen_s
        if self._grip.held:
            return self._grip.target, self._grip.received_s
        due = self.parts.chunks.action_at(self._last - self._begun)
        return (None, now_s) if due is None else (self._target(due.act), due.basis_s)

    def _target(self, act: Values) -> Values:
        if self.measured.delta_limits is None:
            return act
        return self.parts.safety.limiter.target + np.clip(act, *self.measured.delta_limits)

    def _waits_for_first(self, reason: Reason | None) -> bool:
        """Whether nothing is amiss but that the policy has not answered for the first time yet."""
        return reason is Reason.EMPTY and self.state is State.RAMPING and self.parts.chunks.empty

    def _resting(self, *, stalled: bool, problem: str = "") -> TickOutput:
        """The way to rest after a fault or the end; nothing once that was said long enough."""
        now_s, safety = self.now_s(), self.parts.safety
        self._said = self._last
        if self.life.is_silent(now_s, at_rest=safety.limiter.at_rest):
            if self._commanding:
                self._commanding, self._left = False, self._pos
            return TickOutput(None, self.state, problem)
        self._commanding, standing = True, self.parts.feedback_checker.is_standing
        silent = SafetyInput(
            *(None, self._pos, self.seen_s, now_s),
            stalled=stalled,
            implausible_reason=self._implausible_reason,
            is_standing=standing,
        )
        command = safety.step(silent, now_s)
        return TickOutput(command, self.state, problem or command.detail)

    def _demand_fresh(self, inbox: Inbox, now_s: float, what: str) -> None:
        limit = self.parts.safety.max_age_s
        silent = [topic for topic in self.topics if inbox.get(topic) is None]
        if not silent and self._implausible_reason:
            raise TransitionError(
                f"cannot {what}: what is measured is in doubt", found=self._implausible_reason
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
