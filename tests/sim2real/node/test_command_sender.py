"""The guard hears of a command before it is sent, and of none after several that failed."""

from __future__ import annotations

import numpy as np
import pytest
from small_limits import JOINTS, limits

from robo_rl_sim2real.control.commands.braking import Motion
from robo_rl_sim2real.control.commands.publishers import CommandPublishers, PartlySentError
from robo_rl_sim2real.control.commands.safety import Command, Safety
from robo_rl_sim2real.node.command_sender import MAX_UNDELIVERED, CommandSender
from robo_rl_sim2real.transport.loopback import Bus, Loopback
from robo_rl_sim2real.watchdog.guard import Unguarded

COMMAND = Command(np.zeros(JOINTS), None, np.zeros(JOINTS))


class Arm(Unguarded):
    """A sender, and what its guard and its controller hear."""

    def __init__(self, *, by_velocity: bool = False, dry_run: bool = False) -> None:
        self.told, self.stood = list[tuple[str, float]](), False
        self.error: Exception | None = None
        out = CommandPublishers((), Loopback(Bus()))
        out.send = self.hear  # type: ignore[method-assign]
        self.safety = Safety(Safety.Config(), limits(), np.zeros(JOINTS))
        self.sender = CommandSender(
            out, self.safety, lambda: self, by_velocity=by_velocity, dry_run=dry_run
        )

    def report(self, motion: Motion, *, sending: bool) -> None:
        self.told.append(("sending" if sending else "silent", motion.pos[0]))

    def has_stood(self) -> bool:
        return self.stood

    def hear(self, motion: Motion) -> None:
        if self.error is not None:
            raise self.error
        self.told.append(("sent", motion.pos[0]))

    def move(self, target: float = 0.5) -> None:
        self.safety.limiter.step(np.full(JOINTS, target))

    def fail(self, error: Exception) -> None:
        self.error = error
        with pytest.raises(type(error)):
            self.sender.send(COMMAND)
        self.sender.count_failure(error)


def test_the_guard_hears_of_a_command_before_it_is_sent():
    arm = Arm()
    arm.move()
    pos = arm.safety.limiter.motion.pos[0]
    arm.sender.send(COMMAND)
    arm.sender.send(None)
    assert arm.told == [("sending", pos), ("sent", pos), ("silent", pos)]


def test_a_dry_run_sends_nothing():
    arm = Arm(dry_run=True)
    arm.sender.send(COMMAND)
    assert arm.told == [("silent", 0.0)]


@pytest.mark.parametrize("by_velocity", [False, True])
def test_the_velocity_of_a_robot_that_has_stood_begins_anew(by_velocity: bool):
    arm = Arm(by_velocity=by_velocity)
    arm.move()
    arm.stood = True
    arm.sender.send(COMMAND)
    assert arm.safety.limiter.motion.vel.any() == (not by_velocity)


def test_after_several_failures_the_guard_hears_of_no_command_until_one_is_sent():
    arm = Arm()
    for _ in range(2 * MAX_UNDELIVERED):
        arm.fail(OSError("no route"))
    assert arm.told == [("sending", 0.0)] * MAX_UNDELIVERED
    arm.error = None
    arm.sender.send(COMMAND)
    arm.sender.send(COMMAND)
    assert arm.told[MAX_UNDELIVERED:] == [("sent", 0.0), ("sending", 0.0), ("sent", 0.0)]


def test_a_failed_command_takes_the_motion_back_to_the_last_one_that_was_sent():
    arm = Arm()
    arm.move()
    arm.sender.send(COMMAND)
    sent = arm.safety.limiter.motion.pos.copy()
    arm.move()
    arm.fail(OSError("no route"))
    np.testing.assert_array_equal(arm.safety.limiter.motion.pos, sent)


def test_a_command_that_a_part_heard_is_not_taken_back():
    arm = Arm()
    arm.move()
    arm.sender.send(COMMAND)
    arm.move()
    pos = arm.safety.limiter.motion.pos.copy()
    for error in (PartlySentError("OSError: no route"), OSError("no route")):
        arm.fail(error)
        np.testing.assert_array_equal(arm.safety.limiter.motion.pos, pos)
