"""What can be measured and what cannot: limits, reach, and when readings are believed again."""

from __future__ import annotations

import numpy as np
import pytest
from small_limits import JOINTS, limits

from robo_rl_sim2real.control.plausibility import AxisLimits, PlausibilityCheck
from robo_rl_sim2real.messages.readings import Inbox, Reading

LIMITS = limits()
NAMES = tuple(f"joint{i}" for i in range(JOINTS))
AXES = AxisLimits(
    NAMES,
    *(LIMITS.low, LIMITS.high, LIMITS.velocity, LIMITS.acceleration, LIMITS.high - LIMITS.low),
    np.zeros(JOINTS, bool),
)
PERIOD_S = 0.02
READINGS = PlausibilityCheck.Config().reaccept_count


class Measured:
    """A judge, and readings a period apart."""

    def __init__(self, **cfg: float) -> None:
        self.judge, self.now_s = PlausibilityCheck(PlausibilityCheck.Config(**cfg), AXES), 10.0  # type: ignore[arg-type]

    def say(
        self,
        pos: np.ndarray | float,
        *,
        times: int = 1,
        vel: np.ndarray | None = None,
        commanded: np.ndarray | None = None,
        sent_s: float | None = None,
    ) -> PlausibilityCheck:
        for _ in range(times):
            self.now_s += PERIOD_S
            stamp = self.now_s if sent_s is None else sent_s
            reading = Reading({}, (), self.now_s, sent_s=stamp)
            self.judge.check(reading, np.full(JOINTS, pos), vel, commanded)
        return self.judge


def test_nothing_is_believed_before_several_readings_agree():
    said = Measured()
    assert not said.say(0.0, times=READINGS - 1).believed
    judge = said.say(0.0)
    assert judge.believed
    assert judge.problem == ""


def test_the_same_reading_looked_at_again_adds_nothing():
    said = Measured()
    for _ in range(20):
        said.judge.check(Reading({}, (), 10.0), np.zeros(JOINTS), None, None)
    assert not said.judge.believed


@pytest.mark.parametrize("pos", [-1.2, 1.7])
def test_beyond_the_limits_and_their_margin_is_not_believed(pos):
    said = Measured()
    said.say(0.0, times=READINGS)
    judge = said.say(np.where(np.arange(JOINTS) == 2, pos, 0.0))
    assert not judge.believed
    assert f"beyond its limits: 'joint2' {pos:.3f}, limits -1.000 to 1.500" in judge.problem


def test_a_sensor_may_say_a_little_beyond_the_limits():
    said = Measured()
    assert said.say(1.5 + 0.04 * 2.5, times=READINGS).believed


def test_what_moves_within_its_velocity_and_acceleration_is_believed_all_along():
    """There and back at full acceleration, as the robot's limits have it."""
    said, pos, vel = Measured(), np.zeros(JOINTS), np.zeros(JOINTS)
    said.say(0.0, times=READINGS)
    for period in range(200):
        way = 1.0 if period // 25 % 4 in (0, 3) else -1.0
        vel = np.clip(vel + way * LIMITS.acceleration * PERIOD_S, -LIMITS.velocity, LIMITS.velocity)
        pos = np.clip(pos + vel * PERIOD_S, LIMITS.low, LIMITS.high)
        assert said.say(pos).believed


def test_a_jump_is_farther_than_a_joint_can_move_and_is_named():
    said = Measured()
    said.say(0.0, times=READINGS)
    judge = said.say(np.where(np.arange(JOINTS) == 1, 0.3, 0.0))
    assert not judge.believed
    assert "moved farther than it can: 'joint1' by +0.300 in 0.050 s" in judge.problem
    assert not judge.is_standing


def test_a_contact_that_stops_a_moving_joint_at_once_is_believed():
    said, pos = Measured(), np.zeros(JOINTS)
    said.say(0.0, times=READINGS)
    vel = np.zeros(JOINTS)
    for _ in range(30):
        vel = np.minimum(vel + LIMITS.acceleration * PERIOD_S, LIMITS.velocity)
        pos = pos + vel * PERIOD_S
        assert said.say(pos).believed
    for _ in range(10):
        assert said.say(pos).believed


def test_a_velocity_beyond_what_the_joint_can_do_is_another_unit():
    said = Measured()
    said.say(0.0, times=READINGS)
    judge = said.say(0.0, vel=np.degrees(LIMITS.velocity))
    assert not judge.believed
    assert "faster than it can be" in judge.problem


def test_a_wrong_reading_that_stays_is_not_believed_while_the_robot_is_commanded_elsewhere():
    said, told = Measured(), np.zeros(JOINTS)
    said.say(0.0, times=READINGS, commanded=told)
    judge = said.say(0.8, times=500, commanded=told)
    assert not judge.believed
    assert "is 32 % of its range from where it was" in judge.problem
    assert said.say(0.0, times=READINGS + 1, commanded=told).believed


def test_a_robot_that_is_held_up_is_believed_again_where_it_was_before():
    """Its command is far off, since something is in its way."""
    said, told = Measured(), np.full(JOINTS, 0.8)
    said.say(0.0, times=READINGS)
    assert not said.say(1.0, commanded=told).believed
    assert said.say(0.0, times=READINGS + 1, commanded=told).believed


def test_a_joint_that_stops_at_what_it_meets_is_believed_by_itself():
    said = Measured()
    said.judge = PlausibilityCheck(
        PlausibilityCheck.Config(), AXES._replace(yields_to_contact=np.ones(JOINTS, bool))
    )
    said.say(0.0, times=READINGS)
    said.say(0.8, commanded=np.zeros(JOINTS))
    assert said.say(0.8, times=READINGS, commanded=np.zeros(JOINTS)).believed


def test_where_a_command_says_no_place_a_jump_that_stays_is_not_believed():
    """A hand that is told velocities."""
    said, nowhere = Measured(), np.full(JOINTS, np.nan)
    said.say(0.0, times=READINGS)
    assert not said.say(0.4, times=100, commanded=nowhere).believed
    assert said.say(0.0, times=READINGS + 1, commanded=nowhere).believed


@pytest.mark.parametrize(("share", "stands"), [(0.0, True), (0.02, True), (0.2, False)])
@pytest.mark.parametrize("period_s", [0.005, 0.02, 0.05])
def test_standing_is_no_matter_of_how_often_it_is_measured(share, stands, period_s):
    judge = PlausibilityCheck(PlausibilityCheck.Config(), AXES)
    for number in range(round(0.5 / period_s)):
        at_s = 10.0 + number * period_s
        pos = share * LIMITS.velocity * (at_s - 10.0)
        judge.check(Reading({}, (), at_s, sent_s=at_s), pos, None, None)
    assert judge.believed
    assert judge.is_standing is stands


def test_two_sources_that_disagree_are_never_believed():
    said = Measured()
    said.say(0.0, times=READINGS)
    for turn in range(100):
        judge = said.say(0.3 * (turn % 2 == 0))
        assert not judge.believed


def test_headers_tell_how_long_it_took_where_arrivals_do_not():
    """Two readings that come at once were measured a second apart: the second was not late."""
    said = Measured(silence_s=1.0)
    said.say(0.0, times=READINGS)
    later = Reading({}, (), said.now_s + 0.4, sent_s=said.now_s + 0.4)
    said.judge.check(later, np.full(JOINTS, 0.15), None, None)
    assert said.judge.believed
    late = Reading({}, (), said.now_s + 0.41, sent_s=said.now_s + 0.8)
    said.judge.check(late, np.full(JOINTS, 0.3), None, None)
    assert said.judge.believed


def test_a_clock_that_was_set_does_not_let_a_joint_jump():
    said = Measured()
    said.say(0.0, times=READINGS)
    assert not said.say(1.0, sent_s=said.now_s + 3600.0).believed


def test_noise_of_a_joint_that_stands_is_believed():
    rng, said = np.random.default_rng(0), Measured()
    said.say(0.0, times=10)
    for _ in range(500):
        assert said.say(rng.normal(0.0, 0.0005, JOINTS)).is_standing


def test_after_silence_readings_are_believed_again_near_the_last_place_alone():
    for pos, believed in ((0.02, True), (0.5, False)):
        said = Measured()
        said.say(0.0, times=READINGS)
        said.now_s += 2.0
        assert not said.say(pos).believed
        judge = said.say(pos, times=READINGS)
        assert judge.believed is believed
        assert judge.displaced is not believed


def test_an_operator_confirms_the_place_of_the_reading_and_no_other():
    """A driver that restarts after the comparison and repeats zeros is not believed."""
    said = Measured()
    said.say(0.0, times=READINGS)
    said.now_s += 2.0
    assert said.say(0.5, times=READINGS).displaced
    said.judge.accept_place()
    said.now_s += 2.0
    assert not said.say(0.0, times=READINGS).believed
    assert said.judge.displaced
    said.judge.accept_place()
    assert said.say(0.0, times=READINGS).believed


def test_a_leader_arm_may_be_elsewhere_after_silence():
    said = Measured()
    said.judge = PlausibilityCheck(PlausibilityCheck.Config(), AXES, believed=True)
    said.say(0.0)
    said.now_s += 2.0
    assert said.say(0.5).believed


@pytest.mark.parametrize(("gap_s", "believed"), [(0.0, True), (0.1, True), (0.2, False)])
@pytest.mark.parametrize("rate_hz", [3.0, 5.0, 20.0])
def test_silence_is_that_of_the_topic_and_not_of_those_who_look_seldom(gap_s, believed, rate_hz):
    """A topic at 100 Hz, and a policy that looks a few times a second."""
    judge, box, at_s = PlausibilityCheck(PlausibilityCheck.Config(), AXES), Inbox(), 10.0

    def look(number: int, silent_s: float = 0.0) -> None:
        nonlocal at_s
        for _ in range(number):
            at_s += silent_s
            for _ in range(round(100.0 / rate_hz)):
                at_s += 0.01
                box.put("/joints", Reading({}, (), at_s, sent_s=at_s))
            silent = box.longest_gap_s("/joints", judge.checked_s)
            judge.check(Reading({}, (), at_s, sent_s=at_s), np.zeros(JOINTS), None, None, silent)

    look(READINGS + 1)
    assert judge.believed
    look(1, gap_s)
    assert judge.believed is believed
    look(READINGS + 1)
    assert judge.believed
