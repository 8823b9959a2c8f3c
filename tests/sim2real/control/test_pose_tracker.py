"""The pose is the last plausible one, and the commanded one until the robot moves away from it."""

from __future__ import annotations

import numpy as np
import pytest
from small_limits import JOINTS
from small_robot import NAMES, READINGS, TOPIC, Bench, contract

from robo_rl.core.errors import SpecError
from robo_rl_sim2real.control.pose_tracker import PoseTracker
from robo_rl_sim2real.core.graph_problems import GraphProblems
from robo_rl_sim2real.core.lifecycle_states import TransitionError
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.perception.observer import Observer, Source


class Watched:
    """A robot that is measured at a place, and its pose."""

    def __init__(self, *, sends: bool = True) -> None:
        self.bench, self.graph = Bench(), GraphProblems()
        parts = self.bench.runtime.parts
        self.observer = parts.observer
        self.pose = PoseTracker(
            *(self.bench.runtime.measured, parts.feedback_checker, parts.safety, {TOPIC}),
            np.full(JOINTS, 9.0),
            sends=sends,
            graph=lambda: self.graph,
        )

    def see(self, pos: float, times: int = READINGS) -> None:
        for _ in range(times):
            self.bench.pos = np.full(JOINTS, pos)
            self.bench.tell()
            self.pose.read(self.bench.inbox, self.observer)
            self.bench.now_s += self.bench.limits.dt_s

    def refusal(self) -> str:
        with pytest.raises(TransitionError) as error:
            self.pose.demand_fresh(self.bench.inbox, self.bench.now_s, "home")
        return str(error.value)


def test_a_plausible_measurement_is_the_pose_and_as_old_as_its_oldest_reading():
    watched = Watched()
    watched.see(0.1)
    np.testing.assert_array_equal(watched.pose.pos, 0.1)
    seen_s = watched.bench.now_s - watched.bench.limits.dt_s
    assert watched.pose.seen_s == seen_s
    assert watched.pose.is_fresh(seen_s)
    assert not watched.pose.is_fresh(seen_s + 1.0)
    assert watched.pose.is_regular(watched.bench.inbox)
    watched.pose.demand_fresh(watched.bench.inbox, watched.bench.now_s, "home")
    watched.pose.demand_standing("home")


def test_an_implausible_measurement_changes_nothing_and_refuses_a_start():
    watched = Watched()
    watched.see(0.1)
    watched.see(1.2, times=1)
    np.testing.assert_array_equal(watched.pose.pos, 0.1)
    assert watched.refusal().startswith("cannot home: what is measured is in doubt; found /joint")


def test_readings_of_several_sources_are_in_doubt():
    watched = Watched()
    watched.see(0.1)
    watched.graph = GraphProblems(readings="2 nodes publish it")
    watched.see(0.2, times=1)
    np.testing.assert_array_equal(watched.pose.pos, 0.1)
    assert "2 nodes publish it" in watched.refusal()


def test_a_start_without_a_fresh_reading_is_refused():
    watched = Watched()
    watched.bench.inbox = type(watched.bench.inbox)()
    assert watched.refusal() == (
        "cannot home: observations are not fresh; expected at most 0.06 s old, found none on"
        " /joint_states"
    )
    watched.see(0.1)
    watched.bench.now_s += 1.0
    assert "found 1.02 s" in watched.refusal()


def test_a_robot_that_moves_does_not_begin():
    watched = Watched()
    for i in range(READINGS):
        watched.see(0.01 * i, times=1)
    with pytest.raises(TransitionError, match="cannot home: the robot moves"):
        watched.pose.demand_standing("home")


def test_a_robot_is_at_its_last_command_until_it_is_moved():
    watched = Watched()
    limiter = watched.bench.runtime.parts.safety.limiter
    watched.see(0.001)
    assert watched.pose.commanded is None
    watched.pose.is_commanded = True
    assert watched.pose.commanded is limiter.motion.pos
    watched.pose.end_commands()
    watched.see(0.001)
    assert watched.pose.commanded is limiter.motion.pos
    watched.see(0.04)
    watched.see(0.001)
    assert watched.pose.commanded is None


def test_a_robot_that_receives_no_commands_is_not_at_one():
    watched = Watched(sends=False)
    watched.pose.is_commanded = True
    assert watched.pose.commanded is None


def test_a_reading_that_does_not_fit_is_told():
    watched = Watched()
    reading = Reading({"position": np.zeros(1)}, NAMES, watched.bench.now_s)
    watched.bench.inbox.put(TOPIC, reading)
    with pytest.raises(Exception, match=TOPIC):
        watched.pose.read(watched.bench.inbox, watched.observer)


def test_the_feedback_is_tracked_while_what_the_policy_sees_does_not_fit():
    watched = Watched()
    watched.see(0.1)
    seen_s, bench = watched.pose.seen_s, watched.bench
    watched.observer = Observer(contract(), {"pos": Source(topic="/other", field="position")})
    broken = {"position": np.full(JOINTS, np.nan)}
    bench.inbox.put("/other", Reading(broken, NAMES, bench.now_s))
    with pytest.raises(SpecError, match="/other"):
        watched.see(0.101, times=1)
    np.testing.assert_array_equal(watched.pose.pos, 0.101)
    assert watched.pose.measured_s == bench.now_s
    assert watched.pose.seen_s == seen_s
    bench.now_s += bench.limits.dt_s
    with pytest.raises(SpecError):
        watched.see(1.2, times=1)
    assert "joint_states" in watched.pose.implausible_reason
