"""When a policy may begin, go on, and must fall silent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_limits import JOINTS, excess
from small_robot import HORIZON, TOPIC, Bench, wave

from robo_rl_sim2real.control.commands.safety import Reason
from robo_rl_sim2real.control.lifecycle import Lifecycle
from robo_rl_sim2real.control.runtime import TickOutput
from robo_rl_sim2real.core.lifecycle_states import State, TransitionError
from robo_rl_sim2real.messages.readings import Inbox


def reasons(outputs: list[TickOutput]) -> list[Reason | None]:
    return [None if o.command is None else o.command.reason for o in outputs]


def states(outputs: list[TickOutput]) -> set[State]:
    return {output.state for output in outputs}


def test_it_ramps_from_where_the_robot_is():
    bench = Bench(lambda tick: np.full((HORIZON, JOINTS), 0.1), ramp_s=1.0, lag=1.0)
    bench.pos = np.full(JOINTS, -0.2)
    bench.tell()
    bench.sent = [bench.pos]
    bench.begin()
    assert states(bench.run(48)) == {State.RAMPING}
    sent = np.stack(bench.sent)
    np.testing.assert_allclose(sent[25], -0.05, atol=0.03)
    assert (np.diff(sent, axis=0) >= -1e-9).all()
    bench.run(60)
    np.testing.assert_allclose(bench.sent[-1], 0.1, atol=1e-6)
    assert bench.runtime.state is State.RUNNING


@pytest.mark.parametrize("patience_s", [2.0, 0.2])
def test_the_ramp_begins_with_the_first_target_however_long_it_takes(patience_s: float):
    """Also if the first answer is called late."""
    safety = {"inference_timeout_s": patience_s, "max_chunk_age_s": 5.0}
    act = np.full((400, JOINTS), 0.1)
    bench = Bench(lambda tick: act, delay_s=0.9, ramp_s=1.0, lag=1.0, safety=safety).begin()
    assert [output.target for output in bench.run(44)] == [None] * 44
    bench.run(27)
    np.testing.assert_allclose(bench.sent[-1], 0.05, atol=0.01)
    bench.run(60)
    np.testing.assert_allclose(bench.sent[-1], 0.1, atol=1e-6)


def test_holds_within_a_ramp_do_not_begin_it_anew():
    """A policy that is late after every chunk gets to the end of its ramp."""
    act = np.full((HORIZON, JOINTS), 0.1)
    bench = Bench(lambda tick: act, delay_s=0.11, ramp_s=0.5, lag=1.0).begin()
    outputs = bench.run(150)
    assert reasons(outputs).count(Reason.EMPTY) > 20
    assert State.RUNNING in states(outputs)


def test_silence_is_rest_within_a_tenth_of_a_second_and_then_it_goes_on():
    bench = Bench().begin()
    bench.run(40)
    silent = bench.run(30, silent=True)
    first = reasons(silent).index(Reason.STALE)
    assert first * 0.02 <= 0.1
    assert silent[-1].state is State.HOLDING
    np.testing.assert_array_equal(bench.sent[-1], bench.sent[-2])
    again = bench.run(25)
    assert again[-1].state is State.RUNNING
    assert reasons(again).index(None) * 0.02 <= 0.5
    assert excess(np.stack(bench.sent), bench.limits) < 1e-6


def test_an_emergency_stop_latches_until_it_is_released_and_reset():
    bench = Bench().begin()
    bench.run(40)
    bench.life.set_estop(True)
    assert bench.tick().state is State.FAULTED
    with pytest.raises(TransitionError, match="pressed"):
        bench.life.reset()
    bench.life.set_estop(False)
    assert set(states(bench.run(80))) == {State.FAULTED}
    with pytest.raises(TransitionError, match="cannot activate while faulted"):
        bench.runtime.activate(bench.inbox, bench.number)
    bench.life.reset()
    assert bench.tick().state is State.INACTIVE


def test_deactivated_it_comes_to_rest_and_then_says_nothing():
    bench = Bench().begin()
    bench.run(40)
    bench.life.deactivate()
    outputs = bench.run(80)
    assert states(outputs) == {State.INACTIVE}
    assert outputs[0].command is not None
    assert outputs[-1].command is None
    assert excess(np.stack(bench.sent), bench.limits) < 1e-6
    np.testing.assert_array_equal(bench.sent[-1], bench.sent[-2])


def test_a_robot_that_still_moves_cannot_be_activated():
    bench = Bench(lambda tick: np.full((HORIZON, JOINTS), 0.4)).begin()
    bench.run(15)
    bench.life.deactivate()
    bench.tick()
    with pytest.raises(TransitionError, match="still coming to rest"):
        bench.runtime.activate(bench.inbox, bench.number)
    bench.run(40)
    bench.runtime.activate(bench.inbox, bench.number)
    bench.run(20)
    assert bench.runtime.state is State.RUNNING


def test_a_hold_goes_over_gently_and_does_not_last_for_ever():
    bench = Bench(resume_s=0.4, max_hold_s=1.0).begin()
    bench.run(60)
    bench.run(20, silent=True)
    again = bench.run(30)
    assert State.RAMPING in states(again)
    assert again[-1].state is State.RUNNING
    gone = bench.run(200, silent=True)
    assert gone[-1].state is State.INACTIVE
    assert gone[-1].command is None
    assert bench.run(20)[-1].state is State.INACTIVE


def test_it_is_silent_only_once_it_stands():
    bench = Bench(lambda tick: np.full((HORIZON, JOINTS), 1.2), lag=1.0, final_hold_s=0.0).begin()
    bench.run(25)
    bench.life.deactivate()
    bench.run(60)
    assert bench.outputs[-1].command is None
    np.testing.assert_array_equal(bench.sent[-1], bench.sent[-2])
    assert excess(np.stack(bench.sent), bench.limits) < 1e-6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"age_s": 1.0}, "not fresh"),
        ({"pos": 0.7}, "not near its start"),
        ({"nothing": True}, f"none on {TOPIC}"),
    ],
)
def test_it_begins_only_with_fresh_readings_near_its_start(change: dict[str, Any], message: str):
    bench = Bench()
    bench.pos, bench.inbox = np.full(JOINTS, change.get("pos", 0.0)), Inbox()
    bench.life.configure()
    if "nothing" not in change:
        bench.watch()
    bench.now_s += change.get("age_s", 0.0)
    with pytest.raises(TransitionError, match=message):
        bench.runtime.activate(bench.inbox, bench.number)
    assert bench.runtime.state is State.INACTIVE
    assert bench.runtime.tick(bench.inbox, bench.number).command is None


def test_what_moves_along_must_be_nearer_its_start_than_what_turns():
    for place, fits in (((0.2, 0.04), True), ((0.2, 0.06), False), ((0.4, 0.04), False)):
        life = Lifecycle(Lifecycle.Config(), ("turn", "slide"), np.zeros(2), ("rad", "m"))
        life.configure()
        if fits:
            life.activate(np.array(place), 1.0, at_rest=True)
            assert life.state is State.RAMPING
            continue
        with pytest.raises(TransitionError, match="not near its start"):
            life.activate(np.array(place), 1.0, at_rest=True)


def far_off(act: Any = wave) -> Bench:
    """A robot that is nowhere near its start, and is on its way there."""
    bench = Bench(act, lag=0.8)
    bench.pos = np.linspace(-0.9, 1.2, JOINTS)
    bench.sent = [bench.pos]
    bench.inbox = Inbox()
    bench.life.configure()
    bench.watch()
    with pytest.raises(TransitionError, match="ask for 'home'"):
        bench.runtime.activate(bench.inbox, bench.number)
    bench.runtime.home(bench.inbox, bench.number)
    return bench


def test_it_goes_to_its_start_slowly_and_asks_no_policy():
    bench = far_off()
    while bench.tick().state is State.HOMING:
        assert bench.policy.idle
        assert bench.number < 3000
    sent = np.stack(bench.sent)
    np.testing.assert_allclose(sent[-1], 0.0, atol=1e-6)
    assert excess(sent, bench.limits) < 1e-6
    speed = np.abs(np.diff(sent, axis=0)) / bench.limits.dt_s
    share = speed.max(axis=0) / bench.limits.velocity
    assert share.max() == pytest.approx(bench.life.cfg.home_speed, rel=0.01)
    assert (np.diff(np.abs(sent), axis=0) <= 1e-9).all()
    assert bench.run(80)[-1].command is None
    bench.runtime.activate(bench.inbox, bench.number)
    assert bench.run(10)[-1].state is State.RUNNING


def test_whatever_is_amiss_ends_the_way_home():
    bench = far_off()
    bench.run(40)
    silent = bench.run(80, silent=True)
    assert silent[-1].state is State.INACTIVE
    assert Reason.STALE in reasons(silent)
    np.testing.assert_array_equal(bench.sent[-1], bench.sent[-2])
    assert np.abs(bench.sent[-1]).max() > 0.1
    bench.watch()
    bench.runtime.home(bench.inbox, bench.number)
    bench.run(20)
    bench.life.set_estop(True)
    assert bench.run(60)[-1].state is State.FAULTED
    assert excess(np.stack(bench.sent), bench.limits) < 1e-6
    with pytest.raises(TransitionError, match="cannot home while faulted"):
        bench.runtime.home(bench.inbox, bench.number)


def test_a_policy_that_runs_is_not_sent_home():
    bench = Bench().begin()
    bench.run(5)
    with pytest.raises(TransitionError, match="cannot home while running"):
        bench.runtime.home(bench.inbox, bench.number)
