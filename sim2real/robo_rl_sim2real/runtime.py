"""The control loop's inside: readings in, one command a tick out; no transport and no clock.

Shapes: n joints, in the order of the contract's actions. Times are seconds of one monotonic clock,
which is handed in; ticks are control periods since activation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from pydantic import Field

from robo_rl.config import ConfigModel
from robo_rl.errors import RoboRlError, SpecError
from robo_rl_sim2real.chunks import Chunk, ChunkScheduler
from robo_rl_sim2real.observe import Frame, Observer
from robo_rl_sim2real.planner import Planner, Question
from robo_rl_sim2real.readings import Inbox, Values, pick
from robo_rl_sim2real.safety import Asked, Command, Reason, Safety
from robo_rl_sim2real.states import Event, State, TransitionError, after


class Joints(NamedTuple):
    """Where commanded joints are measured.

    Args:
        topic: Topic of joint states.
        names: (n,) joints, in the order of the actions.
        start: (n,) pose near which the policy may begin.
        relative: Whether actions are changes of the last target.
    """

    topic: str
    names: tuple[str, ...]
    start: Values
    relative: bool = False


class Parts(NamedTuple):
    """What a runtime is made of."""

    observer: Observer
    planner: Planner
    chunks: ChunkScheduler
    safety: Safety


class Output(NamedTuple):
    """What came of a tick.

    Args:
        command: What is to be sent, None for nothing.
        state: The state after it.
        problem: What was wrong with a reading or an answer, empty for nothing.
    """

    command: Command | None
    state: State
    problem: str = ""


class Runtime:
    """A policy on a robot, from activation to rest.

    Args:
        cfg: See Config.
        parts: Its own, not shared.
        joints: Of the robot.
    """

    class Config(ConfigModel):
        """Starting and ending.

        Args:
            ramp_s: Time in which commands go over from where the robot is to what the policy says.
            start_within: Distance of a joint from its start, in its unit, to begin from.
            hold_s: How long a robot that is at fault, or not active any more, is told to stay.
        """

        ramp_s: float = Field(default=2.0, ge=0.0)
        start_within: float = Field(default=0.5, gt=0.0)
        hold_s: float = Field(default=1.0, ge=0.0)

    def __init__(self, cfg: Config, parts: Parts, joints: Joints) -> None:
        self.cfg, self.parts, self.joints = cfg, parts, joints
        self.state, self.estop = State.UNCONFIGURED, False
        self._begun_s = self._left_s = self.seen_s = -np.inf
        self._home = self._measured = joints.start

    def configure(self) -> None:
        """What the runtime is made of has been checked and warmed up."""
        self.state = after(self.state, Event.CONFIGURE)

    def activate(self, inbox: Inbox, now_s: float) -> None:
        """Begin, ramping from where the robot is.

        Raises:
            TransitionError: Not now; readings are stale, or the robot is not near its start.
        """
        going = after(self.state, Event.ACTIVATE)
        frame = self._fresh(inbox, now_s)
        measured = self._joints(inbox)
        apart = np.abs(measured - self.joints.start)
        if not (apart <= self.cfg.start_within).all():
            worst = int(apart.argmax())
            raise TransitionError(
                f"cannot activate: joint '{self.joints.names[worst]}' is not near its start",
                expected=f"{self.joints.start[worst]:.3f} ± {self.cfg.start_within:g}",
                found=f"{measured[worst]:.3f}",
            )
        self.parts.observer.forget()
        self.parts.chunks.clear()
        self.parts.safety.restart(measured)
        self._begun_s, self._home, self.seen_s = now_s, measured, frame.stamp_s
        self.state = going

    def deactivate(self, now_s: float) -> None:
        """Come to rest, and be silent after ``hold_s``."""
        self.state, self._left_s = after(self.state, Event.DEACTIVATE), now_s

    def reset(self) -> None:
        """Leave a fault, to inactive; the emergency stop must have been released."""
        if self.estop:
            raise TransitionError("cannot reset: the emergency stop is pressed")
        self.state = after(self.state, Event.RESET)

    def fail(self, now_s: float) -> Output:
        """Something broke: come to rest, at fault."""
        if self.state.moves:
            self.state, self._left_s = after(self.state, Event.FAULT), now_s
        return Output(self._resting(now_s), self.state)

    def tick(self, inbox: Inbox, now_s: float) -> Output:
        """One control period."""
        if not self.state.moves:
            return Output(self._resting(now_s), self.state)
        tick = round((now_s - self._begun_s) / self.parts.safety.limits.dt_s)
        problem = self._learn(inbox, tick, now_s)
        command = self.parts.safety.step(self._asked(tick, now_s), now_s)
        self._follow(command.reason, now_s)
        return Output(command, self.state, problem)

    def _learn(self, inbox: Inbox, tick: int, now_s: float) -> str:
        """Look, ask the policy, hear its answer; says what went wrong."""
        try:
            frame = self.parts.observer.look(inbox)
            self._measured = self._joints(inbox)
            if frame is not None:
                self.seen_s = frame.stamp_s
                self._ask(frame, tick, now_s)
            self._hear(tick)
        except RoboRlError as error:
            return str(error)
        return ""

    def _ask(self, frame: Frame, tick: int, now_s: float) -> None:
        obs, planner = self.parts.observer.observation(frame), self.parts.planner
        fresh = now_s - frame.stamp_s <= self.parts.safety.max_age_s
        if fresh and planner.thinking_s(now_s) == 0.0 and self.parts.chunks.wants(tick):
            planner.ask(Question(obs, tick, frame.stamp_s), now_s)

    def _hear(self, tick: int) -> None:
        found = self.parts.planner.answer()
        if found is not None:
            asked, size = found.question, len(self.joints.names)
            if found.act.ndim != 2 or found.act.shape[1] != size:
                raise SpecError("action chunk", expected=f"(H, {size})", found=found.act.shape)
            self.parts.chunks.add(Chunk(found.act, asked.tick, tick, asked.observed_s))

    def _asked(self, tick: int, now_s: float) -> Asked:
        due = self.parts.chunks.due(tick)
        return Asked(
            target=None if due is None else self._ramped(due.act, now_s),
            measured=self._measured,
            observed_s=self.seen_s,
            basis_s=now_s if due is None else due.basis_s,
            thinking_s=self.parts.planner.thinking_s(now_s),
            estop=self.estop,
        )

    def _ramped(self, act: Values, now_s: float) -> Values:
        """The action as a target; for the first ``ramp_s`` partly where the robot began."""
        target = act + self.parts.safety.limiter.target if self.joints.relative else act
        share = min((now_s - self._begun_s) / max(self.cfg.ramp_s, 1e-9), 1.0)
        return target if share >= 1.0 else self._home + share * (target - self._home)

    def _follow(self, reason: Reason | None, now_s: float) -> None:
        """Go to the state that a tick's outcome leads to."""
        if reason is not None and reason.latches:
            self.state, self._left_s = after(self.state, Event.FAULT), now_s
        elif reason is not None and self.state is not State.HOLDING:
            self.state = after(self.state, Event.HOLD)
        elif reason is None and self.state is State.HOLDING:
            self.state = after(self.state, Event.RECOVER)
        elif self.state is State.RAMPING and now_s - self._begun_s >= self.cfg.ramp_s:
            self.state = after(self.state, Event.RAMPED)

    def _resting(self, now_s: float) -> Command | None:
        """The way to rest after a fault or the end; nothing once that was said long enough."""
        if now_s - self._left_s > self.cfg.hold_s:
            return None
        silent = Asked(None, self._measured, now_s, now_s)
        return self.parts.safety.step(silent, now_s)

    def _fresh(self, inbox: Inbox, now_s: float) -> Frame:
        frame = self.parts.observer.look(inbox)
        age = np.inf if frame is None else now_s - frame.stamp_s
        if frame is None or not age <= self.parts.safety.max_age_s:
            silent = [t for t in self.parts.observer.topics if inbox.get(t) is None]
            raise TransitionError(
                "cannot activate: observations are not fresh",
                expected=f"at most {self.parts.safety.max_age_s:g} s old",
                found=f"none on {', '.join(sorted(silent))}" if silent else f"{age:.2f} s",
            )
        return frame

    def _joints(self, inbox: Inbox) -> Values:
        reading = inbox.get(self.joints.topic)
        if reading is None:
            raise SpecError("no joint states came", where=self.joints.topic)
        return pick(reading, "position", self.joints.names, self.joints.topic)
