"""Chooses what the robot follows: the policy, an operator, or its start pose while homing.

Shapes: n joints or axes, in the order of the contract's actions. Times are in seconds of one
monotonic clock. Ticks count from the activation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from robo_rl_sim2real.control.commands.deltas import largest_lead
from robo_rl_sim2real.control.commands.safety import Safety
from robo_rl_sim2real.control.feedback import Feedback
from robo_rl_sim2real.control.lifecycle import Lifecycle
from robo_rl_sim2real.control.policy_queries import PolicyInput, PolicyQueries
from robo_rl_sim2real.control.pose_tracker import PoseTracker
from robo_rl_sim2real.control.teleop.teleop import Teleop, TeleopInput
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.readings import Inbox, Values
from robo_rl_sim2real.perception.observer import Frame, Observer


class Target(NamedTuple):
    """The target of a tick.

    Args:
        pos: (n,) target; None for none.
        basis_s: Arrival of the oldest reading that it depends on.
    """

    pos: Values | None
    basis_s: float


class TargetSource:
    """Updates the teleoperation and the policy, and returns the target of the active one.

    Args:
        policy: The policy.
        teleop: Input of an operator.
        safety: Safety checks, which hold the last command.
        life: Lifecycle, which says what is active.
        measured: Names of the joints, and the conversion of actions that are changes.
        pose: Pose of the robot.
        now_s: Monotonic clock.
    """

    def __init__(
        self,
        policy: PolicyQueries,
        teleop: Teleop,
        safety: Safety,
        life: Lifecycle,
        measured: Feedback,
        pose: PoseTracker,
        now_s: Callable[[], float],
    ) -> None:
        self._policy, self._teleop, self._safety = policy, teleop, safety
        self._life, self._measured, self._pose, self._now_s = life, measured, pose, now_s
        self._grip = TeleopInput(held=False, target=None, received_s=-np.inf)
        self.instruction = ""
        """The words that the target follows, or those in effect without one."""

    def update(self, inbox: Inbox, observer: Observer, tick: int) -> None:
        """Observe, receive the policy's chunk and request the next one.

        The feedback comes first: no other malformed input keeps it from being tracked, and
        malformed feedback does not keep the operator's switch from being read.

        Raises:
            RoboRlError: A reading or a chunk does not fit.
        """
        self.instruction = ""
        if self._life.state is State.HOMING:
            self._pose.read(inbox, observer)
            return
        inbox, size = inbox.snapshot(), len(self._measured.names)
        try:
            self._pose.track(inbox)
        finally:
            self._update_teleop(inbox)
            self._policy.receive(tick, size)
        frame = self._pose.read_frame(inbox, observer)
        if frame is not None:
            self.instruction = self._policy.instruction = frame.instruction
        if frame is not None and self._pose.is_fresh(self._now_s()):
            self._request(frame, observer, tick)
            self._policy.receive(tick, size)

    def target(self, tick: int, now_s: float) -> Target:
        """Return the target of the active source."""
        if self._life.state is State.HOMING:
            return Target(self._life.start, self._pose.seen_s)
        if self._grip.held:
            return Target(self._grip.target, self._grip.received_s)
        due = self._policy.action_at(tick)
        if due is None:
            return Target(None, now_s)
        self.instruction = due.instruction
        return Target(self._absolute(due.act), due.basis_s)

    def _request(self, frame: Frame, observer: Observer, tick: int) -> None:
        obs = observer.observation(frame, tick)
        seen = PolicyInput(obs, self._pose.seen_s, frame.instruction)
        running, by_hand = self._life.state is State.RUNNING, self._grip.held
        self._policy.request(seen, tick, executes=running, wanted=not by_hand)

    def _update_teleop(self, inbox: Inbox) -> None:
        """Update teleoperation; its start and its end discard all chunks."""
        limiter, now_s, life = self._safety.limiter, self._now_s(), self._life
        self._grip = TeleopInput(
            held=True, target=None, received_s=now_s
        )  # if the message does not fit
        if life.state is State.HOLDING:
            self._teleop.release()  # deltas are not accumulated while holding
        self._grip = self._teleop.read(inbox, now_s, lambda: limiter.stop)
        changes = self._grip.held is not (life.state is State.TELEOPERATED)
        if changes and life.set_teleop(limiter.stop, now_s, held=self._grip.held):
            self._policy.restart()

    def _absolute(self, act: Values) -> Values:
        """Return the target (n,) of an action (n,), of which some may be changes."""
        if self._measured.deltas is None:
            return act
        limiter = self._safety.limiter
        pos, lead = limiter.motion.pos, largest_lead(limiter.limits)
        return self._measured.deltas.target(np.clip(limiter.target, pos - lead, pos + lead), act)
