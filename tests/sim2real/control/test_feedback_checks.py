"""A policy beside what is measured wrongly: it brakes along its commands, and goes nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_limits import JOINTS, excess
from small_robot import HORIZON, NAMES, TOPIC, Bench, wave

from robo_rl_sim2real.control.commands.safety import Reason
from robo_rl_sim2real.control.runtime import Runtime
from robo_rl_sim2real.core.graph_problems import GraphProblems
from robo_rl_sim2real.core.lifecycle_states import State, TransitionError
from robo_rl_sim2real.messages.readings import Reading

WRONG = {
    "one joint 1 rad off": lambda pos: pos + np.eye(JOINTS)[1],
    "zeros": np.zeros_like,
    "degrees": np.degrees,
    "times 1000": lambda pos: 1000.0 * pos,
}


def fast(tick: int) -> np.ndarray:
    """From one end to the other, as fast as the limits let it."""
    return np.full((HORIZON, JOINTS), 0.9 if tick // 40 % 2 else -0.6)


def say(bench: Bench, pos: np.ndarray) -> None:
    reading = Reading({"position": pos[::-1]}, NAMES[::-1], bench.now_s, sent_s=bench.now_s)
    bench.inbox.put(TOPIC, reading)


@pytest.mark.parametrize("lag", [pytest.param(0.3, marks=pytest.mark.slow), 1.0])
@pytest.mark.parametrize("wrong", WRONG)
def test_60_ms_of_a_wrong_reading_move_commands_no_farther_than_where_braking_ends(wrong, lag):
    for begin in range(55, 75, 4):
        bench = Bench(fast, lag=lag, max_hold_s=60.0).begin()
        bench.run(begin)
        if np.abs(WRONG[wrong](bench.pos) - bench.pos).max() < 0.4:
            continue  # zeros, of a robot that is there
        limiter = bench.runtime.parts.safety.limiter
        ends = np.stack([bench.sent[-1], limiter.stop])
        for _ in range(3):
            say(bench, WRONG[wrong](bench.pos))
            output = bench.tick(silent=True)
            assert output.command is not None
            assert output.command.reason is Reason.DOUBT
            assert TOPIC in output.problem
        while bench.tick().state is State.HOLDING:
            assert (bench.sent[-1] > ends.min(axis=0) - 0.02).all()
            assert (bench.sent[-1] < ends.max(axis=0) + 0.02).all()
        assert bench.run(60)[-1].state is State.RUNNING
        assert excess(np.stack(bench.sent), bench.limits) < 1e-6


def test_a_driver_that_says_zeros_from_now_on_ends_the_policy_and_moves_nothing():
    bench = Bench(lambda tick: np.full((HORIZON, JOINTS), 0.6), max_hold_s=1.0).begin()
    bench.run(100)
    rest = bench.sent[-1]
    for _ in range(200):
        say(bench, np.zeros(JOINTS))
        bench.tick(silent=True)
    assert bench.runtime.state is State.INACTIVE
    np.testing.assert_allclose(bench.sent[-1], rest, atol=1e-6)


@pytest.mark.parametrize("silent", [8, 100])
def test_a_driver_that_says_zeros_after_silence_moves_nothing(silent):
    bench = Bench(lambda tick: np.full((HORIZON, JOINTS), 0.6), max_hold_s=9.0).begin()
    bench.run(100)
    bench.run(silent, silent=True)
    rest = bench.sent[-1]
    for _ in range(300):
        say(bench, np.zeros(JOINTS))
        output = bench.tick(silent=True)
        assert "of its range from where it was" in output.problem or bench.number < 110 + silent
    np.testing.assert_allclose(bench.sent[-1], rest, atol=1e-6)


@pytest.mark.parametrize("silent", [0, 100])
def test_a_robot_at_rest_that_is_suddenly_elsewhere_begins_after_an_operator_confirms_it(silent):
    bench = Bench(lambda tick: np.full((HORIZON, JOINTS), 0.6), lag=1.0, start_tolerance_rad=9.0)
    bench.begin().run(100)
    bench.life.deactivate()
    bench.run(200)
    bench.now_s += silent * bench.limits.dt_s
    bench.pos = np.zeros(JOINTS)
    bench.watch()
    for begin in (bench.runtime.home, bench.runtime.activate):
        with pytest.raises(TransitionError, match=r"in doubt.*from where it was.*'reset'"):
            begin(bench.inbox, bench.number)
    bench.runtime.reset()
    bench.watch()
    bench.runtime.activate(bench.inbox, bench.number)
    bench.run(1)
    assert np.abs(bench.sent[-1]).max() < 0.05


def test_a_reset_that_clears_a_fault_confirms_no_place():
    bench = Bench(lambda tick: np.full((HORIZON, JOINTS), 0.6), lag=1.0).begin()
    bench.run(100)
    bench.runtime.fail(bench.number)
    bench.run(200)
    bench.pos = np.zeros(JOINTS)
    bench.watch()
    bench.runtime.reset()
    assert bench.runtime.state is State.INACTIVE
    bench.watch()
    with pytest.raises(TransitionError, match="in doubt"):
        bench.runtime.activate(bench.inbox, bench.number)


def test_without_a_fault_or_a_place_in_question_there_is_nothing_to_reset():
    bench = Bench()
    bench.life.configure()
    bench.watch()
    with pytest.raises(TransitionError):
        bench.runtime.reset()


@pytest.mark.parametrize("vel", [np.full(JOINTS, np.nan), np.zeros(2), np.zeros(JOINTS)])
def test_a_driver_that_knows_no_velocities_is_believed_all_the_same(vel):
    bench = Bench(wave).begin()
    for _ in range(60):
        fields = {"position": bench.pos[::-1], "velocity": vel}
        bench.inbox.put(TOPIC, Reading(fields, NAMES[::-1], bench.now_s, sent_s=bench.now_s))
        bench.tick(silent=True)
    assert bench.runtime.state is State.RUNNING


def test_the_policy_is_not_shown_what_is_not_believed():
    bench = Bench(wave).begin()
    seen: list[np.ndarray] = []
    ask = bench.policy.submit

    def noting(question: Any) -> None:
        seen.append(question.obs["pos"][0, -1])
        ask(question)

    bench.policy.submit = noting
    bench.run(30)
    for _ in range(5):
        say(bench, bench.pos + 1.0)
        bench.tick(silent=True)
    bench.run(60)
    assert bench.runtime.state is State.RUNNING
    assert np.stack(seen).max() < 0.5


@pytest.mark.parametrize("sag", [0.0, 0.05, 0.1])
def test_begun_again_while_it_is_told_to_stay_it_goes_on_from_what_it_was_told(sag):
    bench = Bench(
        lag=1.0,
        final_hold_s=5.0,
        start_tolerance_rad=9.0,
        safety={"yield_distance": 1.0, "max_tracking_error": 1.0},
    )
    bench.begin()
    for _ in range(8):
        for _ in range(30):
            bench.pos = bench.sent[-1] - sag
            bench.tick()
        bench.life.deactivate()
        for _ in range(60):
            bench.pos = bench.sent[-1] - sag
            bench.tick()
        assert bench.outputs[-1].command is not None  # it is still being told
        bench.runtime.activate(bench.inbox, bench.number)
    assert excess(np.stack(bench.sent), bench.limits) < 1e-6


def test_after_silence_it_goes_on_from_what_it_was_told_unless_it_was_moved():
    for moved in (False, True):
        bench = Bench(lag=1.0, final_hold_s=0.0, start_tolerance_rad=9.0).begin()
        bench.run(60)
        bench.life.deactivate()
        for _ in range(100):
            bench.pos = bench.sent[-1] - 0.05
            bench.tick()
        told = bench.sent[-1]
        assert bench.outputs[-1].command is None
        if moved:
            for _ in range(40):
                bench.pos = bench.pos + 0.005
                bench.tick()
            bench.watch()
        where = bench.pos
        bench.runtime.activate(bench.inbox, bench.number)
        first = bench.runtime.parts.safety.limiter.motion.pos
        np.testing.assert_allclose(first, where if moved else told, atol=1e-9)


def test_one_that_was_moved_and_brought_back_begins_from_where_it_is():
    bench = Bench(lag=1.0, final_hold_s=0.0, start_tolerance_rad=9.0).begin()
    bench.run(60)
    bench.life.deactivate()
    bench.run(100)
    for way in (0.01, -0.01):
        for _ in range(40):
            bench.pos = bench.pos + way
            bench.tick()
    bench.pos = bench.pos - 0.02
    bench.watch()
    bench.runtime.activate(bench.inbox, bench.number)
    first = bench.runtime.parts.safety.limiter.motion.pos
    np.testing.assert_allclose(first, bench.pos, atol=1e-9)


def test_it_does_not_begin_while_it_is_moved_or_in_doubt():
    bench = Bench()
    bench.life.configure()
    bench.watch()
    for _ in range(10):
        bench.pos = bench.pos + 0.005
        bench.tick()
    bench.tell()
    with pytest.raises(TransitionError, match="cannot activate: the robot moves"):
        bench.runtime.activate(bench.inbox, bench.number)
    bench.pos = bench.pos + 0.5
    bench.now_s += bench.limits.dt_s
    bench.tell()
    with pytest.raises(TransitionError, match=r"in doubt.*moved farther than it can"):
        bench.runtime.activate(bench.inbox, bench.number)
    bench.watch()
    bench.watch()
    with pytest.raises(TransitionError, match=r"in doubt.*from where it was"):
        bench.runtime.activate(bench.inbox, bench.number)
    bench.runtime.reset()
    bench.watch()
    with pytest.raises(TransitionError, match="is not near its start"):
        bench.runtime.activate(bench.inbox, bench.number)


def test_readings_of_two_sources_hold_the_robot_as_long_as_there_are_two():
    bench, found = Bench(), [""]
    parts, measured = bench.runtime.parts, bench.runtime.measured
    bench.runtime = Runtime(
        parts, measured, bench.read, graph=lambda: GraphProblems(readings=found[0])
    )
    bench.begin()
    bench.run(40)
    found[0] = "/joint_states: 2 nodes publish it: driver, other"
    output = bench.run(20)[-1]
    assert output.state is State.HOLDING
    assert "driver, other" in output.problem
    found[0] = ""
    assert bench.run(20)[-1].state is State.RUNNING


def test_readings_that_come_too_seldom_are_one_hold_that_lasts():
    bench = Bench(max_hold_s=3.0, obs_horizon=1).begin()
    bench.run(40)
    states = [bench.tick(silent=tick % 5 != 0).state for tick in range(140)]
    assert states.count(State.RAMPING) == 0
    assert states[-1] is State.HOLDING
    assert bench.run(20)[-1].state is State.RUNNING
