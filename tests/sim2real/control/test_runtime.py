"""A policy on a made-up robot: what is sent when all is well, and when it is not."""

from __future__ import annotations

import numpy as np
import pytest
from small_limits import JOINTS, excess, limits
from small_robot import HORIZON, NAMES, TOPIC, Bench, SlowPolicy, contract, wave

from robo_rl.core.spec import TOKEN, ObsSpec, TensorSpec
from robo_rl_sim2real.control.commands.deltas import largest_lead
from robo_rl_sim2real.control.commands.safety import Reason
from robo_rl_sim2real.control.inference import InferenceRequest
from robo_rl_sim2real.control.plausibility import PlausibilityCheck
from robo_rl_sim2real.control.runtime import Runtime, TickOutput
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.perception.observer import Observer, Source


class DelaysItsTick(SlowPolicy):
    """A policy whose first query holds its own tick up."""

    def __init__(self, bench: Bench, late_s: float) -> None:
        super().__init__(wave, 0.0)
        self.bench, self.late_s, self.delayed = bench, late_s, False

    def submit(self, question: InferenceRequest) -> None:
        super().submit(question)
        if not self.delayed:
            self.bench.now_s += self.late_s
        self.delayed, self.now_s = True, self.bench.now_s


def reasons(outputs: list[TickOutput]) -> list[Reason | None]:
    return [None if o.command is None else o.command.reason for o in outputs]


def states(outputs: list[TickOutput]) -> set[State]:
    return {output.state for output in outputs}


@pytest.mark.parametrize("delay_s", [0.0, 0.02, 0.06])
@pytest.mark.parametrize("merge", ["newest", "soft", "ensemble"])
def test_what_the_policy_wants_for_a_tick_is_what_is_sent_at_that_tick(delay_s, merge):
    bench = Bench(delay_s=delay_s, merge=merge).begin()
    bench.run(100)
    wanted = np.concatenate([wave(tick)[:1] for tick in range(100)])
    late = round(delay_s / 0.02)
    sent = np.stack(bench.sent[1:])
    np.testing.assert_allclose(sent[late + 30 :], wanted[late + 30 :], atol=1e-9)
    assert bench.runtime.state is State.RUNNING


def test_a_policy_slower_than_its_chunk_waits_at_rest_and_goes_on():
    bench = Bench(delay_s=0.14, safety={"inference_timeout_s": 1.0}).begin()
    outputs = bench.run(100)
    assert {State.RAMPING, State.HOLDING} <= states(outputs[10:])
    assert excess(np.stack(bench.sent), bench.limits) < 1e-6


def test_an_inference_beyond_its_deadline_is_a_reason_to_rest():
    bench = Bench(delay_s=0.5, safety={"inference_timeout_s": 0.1}).begin()
    assert Reason.LATE in reasons(bench.run(20))


@pytest.mark.parametrize("drop", [0.01, 0.1, 0.5])
def test_messages_may_be_lost_late_and_out_of_order(drop):
    rng, bench = np.random.default_rng(0), Bench(delay_s=0.03, merge="soft").begin()
    held: list[Reading] = []
    for _ in range(500):
        if rng.random() > drop:
            held.append(Reading({"position": bench.pos[::-1]}, NAMES[::-1], bench.now_s))
        rng.shuffle(held)
        while held and rng.random() < 0.8:
            bench.inbox.put(TOPIC, held.pop())
        bench.tick(silent=True)
    assert excess(np.stack(bench.sent), bench.limits) < 1e-6
    assert State.FAULTED not in states(bench.outputs)
    assert sum(o.state is State.RUNNING for o in bench.outputs) > 250


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_action_that_is_not_finite_is_never_sent_and_is_a_fault(bad):
    def act(tick: int) -> np.ndarray:
        chunk = wave(tick)
        chunk[2, 1] = bad if tick > 20 else 0.0
        return chunk

    bench = Bench(act).begin()
    outputs = bench.run(200)
    assert np.isfinite(bench.sent).all()
    assert outputs[-1].state is State.FAULTED
    assert Reason.NOT_FINITE in reasons(outputs)
    assert outputs[-1].command is None  # it was told to stay for a second, and is left alone then
    assert excess(np.stack(bench.sent), bench.limits) < 1e-6


@pytest.mark.parametrize("shape", [(HORIZON, JOINTS - 1), (JOINTS,), (0, JOINTS), (2, 3, JOINTS)])
def test_a_chunk_of_another_shape_moves_nothing(shape):
    bench = Bench(lambda tick: np.zeros(shape)).begin()
    outputs = bench.run(10)
    assert set(reasons(outputs)) == {Reason.EMPTY}
    assert (np.stack(bench.sent) == 0.0).all()


def test_huge_actions_stay_within_the_limits():
    bench = Bench(lambda tick: np.full((HORIZON, JOINTS), 1e12 * (-1) ** tick), lag=1.0).begin()
    bench.run(100)
    assert excess(np.stack(bench.sent), bench.limits) < 1e-6


def test_a_robot_that_does_not_follow_is_a_fault():
    bench = Bench(lambda tick: np.full((HORIZON, JOINTS), 0.9), lag=0.0).begin()
    outputs = bench.run(200)
    assert Reason.TRACKING in reasons(outputs)
    assert outputs[-1].state is State.FAULTED


def test_relative_actions_are_changes_of_the_last_command():
    bench = Bench(lambda tick: np.full((HORIZON, JOINTS), 0.001), relative=True).begin()
    bench.run(60)
    np.testing.assert_allclose(np.diff(bench.sent[-20:], axis=0), 0.001, atol=1e-6)


def test_changes_count_from_where_a_hold_came_to_rest():
    """The robot holds for a second, in which nothing adds up, and goes on from there."""
    act = np.full((HORIZON, JOINTS), 0.001)
    bench = Bench(lambda tick: act, relative=True, max_hold_s=60.0).begin()
    bench.run(60)
    bench.run(50, silent=True)
    assert bench.runtime.state is State.HOLDING
    rest = bench.sent[-1]
    np.testing.assert_allclose(bench.sent[-10:], np.tile(rest, (10, 1)), atol=1e-9)
    outputs = bench.run(20)
    assert outputs[-1].state is State.RUNNING
    after = np.stack(bench.sent[-20:]) - rest
    assert (np.diff(after, axis=0) >= -1e-9).all()
    assert after.max() <= 20 * 0.001 + 1e-6
    assert excess(np.stack(bench.sent), bench.limits) < 1e-6


def test_changes_faster_than_the_robot_do_not_pile_up():
    """Ten times full speed for a second; then the robot stops within its braking distance."""
    far = 10 * limits().velocity.max() * limits().dt_s
    acts = {"now": far}
    bench = Bench(lambda tick: np.full((HORIZON, JOINTS), acts["now"]), lag=1.0, relative=True)
    bench.begin().run(12)
    acts["now"] = 0.0
    bench.run(HORIZON)
    lead = bench.runtime.parts.safety.limiter.target - bench.sent[-1]
    assert (lead <= largest_lead(bench.limits) + far + 1e-9).all()
    bench.run(100)
    assert (np.stack(bench.sent) <= bench.limits.high + 1e-9).all()
    assert np.abs(bench.sent[-1] - bench.sent[-2]).max() < 1e-9


def test_a_loop_that_stalled_goes_on_from_standstill():
    """The robot has long come to rest at the last command by then, and time went on."""
    bench = Bench().begin()
    bench.run(60)
    bench.number += 50
    bench.now_s += 50 * 0.02
    stalled = len(bench.sent)
    outputs = bench.run(40)
    assert reasons(outputs)[0] is Reason.STALLED
    assert bench.runtime.state is State.RUNNING
    for part in (bench.sent[:stalled], bench.sent[stalled - 1 :]):  # at rest before the first
        assert excess(np.stack(part), bench.limits) < 1e-6


def test_a_loop_that_stalled_and_then_breaks_sets_nothing_going_again(monkeypatch):
    """The robot stands at the last command; what braking was left belongs to the past."""
    bench = Bench().begin()
    bench.run(60)
    last = bench.sent[-1]
    assert np.abs(last - bench.sent[-2]).min() > 1e-4
    bench.number += 50
    bench.now_s += 50 * bench.limits.dt_s
    monkeypatch.setattr(bench.runtime.parts.observer, "read_frame", lambda inbox: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        bench.tick()
    output = bench.runtime.fail(bench.number)
    assert output.state is State.FAULTED
    assert output.command is not None
    np.testing.assert_allclose(output.command.pos, last, atol=1e-9)


def test_a_slow_answer_makes_its_own_readings_old():
    """The query takes a part of this very tick."""
    bench = Bench(safety={"max_obs_age_s": 0.03})
    bench.runtime.parts.policy.inference = DelaysItsTick(bench, 0.035)
    bench.begin()
    assert reasons(bench.run(1)) == [Reason.STALE]


@pytest.mark.parametrize(("late_s", "stalls"), [(0.01, False), (0.045, True), (0.5, True)])
def test_a_delay_within_a_tick_does_not_set_a_robot_going_that_has_stopped(late_s, stalls):
    """The robot stands at the last command by the time of the next, whatever its number."""
    bench = Bench(safety={"max_obs_age_s": 10.0, "max_obs_age_periods": 100.0}).begin()
    bench.run(60)
    last = bench.sent[-1]
    assert np.abs(last - bench.sent[-2]).min() > 1e-4
    bench.runtime.parts.policy.inference = DelaysItsTick(bench, late_s)
    asked = len(bench.outputs)
    while not bench.runtime.parts.policy.inference.delayed:
        bench.tick()
    before, after = bench.sent[-2:]
    assert (reasons(bench.outputs)[-1] is Reason.STALLED) is stalls
    assert np.array_equal(after, before) is stalls
    assert len(bench.outputs) > asked
    assert bench.run(40)[-1].state is State.RUNNING


def test_an_answer_to_an_earlier_activation_is_not_heard():
    bench = Bench(lambda tick: np.full((HORIZON, JOINTS), 0.1 if tick else 0.4), delay_s=0.04)
    bench.begin()
    bench.run(1)  # asked, and answered later
    bench.life.deactivate()
    bench.policy.delay_s = 0.2
    bench.run(3)
    bench.runtime.activate(bench.inbox, bench.number)
    bench.policy.act = lambda tick: np.full((HORIZON, JOINTS), -0.2)
    bench.run(60)
    assert np.stack(bench.sent).max() < 1e-9


def test_a_joint_that_sags_does_not_lead_a_hold_away():
    """It comes to rest where it was measured when the hold began, and is not followed down."""
    bench = Bench(max_hold_s=60.0, lag=1.0, safety={"max_tracking_error": 1.0}).begin()
    bench.run(60)
    bench.policy.delay_s = 1e9
    for _ in range(300):
        bench.pos = bench.sent[-1] - 0.15
        bench.tick()
    assert bench.runtime.state is State.HOLDING
    assert np.abs(bench.sent[-1] - bench.sent[60]).max() < 0.2


def test_joints_that_the_policy_does_not_observe_must_be_fresh_too():
    bench = Bench()
    sources = {"pos": Source(topic="/other", field="position")}
    parts = bench.runtime.parts._replace(observer=Observer(contract(), sources))
    bench.runtime = Runtime(parts, bench.runtime.measured, bench.read)

    def say() -> None:
        bench.inbox.put("/other", Reading({"position": bench.pos}, NAMES, bench.now_s))

    bench.life.configure()
    bench.watch()
    say()
    bench.runtime.activate(bench.inbox, bench.number)
    for _ in range(20):
        say()
        bench.tick(silent=True)
    assert reasons(bench.outputs)[-1] is Reason.STALE


@pytest.mark.parametrize(("pushed", "ends"), [(0.0, Reason.STALE), (0.03, Reason.TRACKING)])
def test_a_collision_is_noticed_while_an_observation_does_not_fit(pushed, ends):
    """Without one the robot holds, for its observations are old."""
    bench = Bench()
    sources = {"pos": Source(topic="/other", field="position")}
    parts = bench.runtime.parts._replace(observer=Observer(contract(), sources))
    bench.runtime = Runtime(parts, bench.runtime.measured, bench.read)

    def say(pos: np.ndarray) -> None:
        bench.inbox.put("/other", Reading({"position": pos}, NAMES, bench.now_s))

    bench.life.configure()
    say(bench.pos)
    bench.watch()
    say(bench.pos)
    bench.runtime.activate(bench.inbox, bench.number)
    for ticks, seen, push in ((20, 0.0, 0.0), (40, np.nan, pushed)):
        for _ in range(ticks):
            say(bench.pos + seen)
            if push:
                bench.lag, bench.pos = 0.0, bench.pos + push
            bench.tick()
    assert "/other" in bench.outputs[25].problem
    assert [r for r in reasons(bench.outputs) if r is not None][-1] is ends


def test_joints_without_names_are_not_taken():
    bench = Bench().begin()
    bench.inbox.put(TOPIC, Reading({"position": np.array([0.1])}, (), bench.now_s))
    assert "without names" in bench.tick(silent=True).problem


def test_history_begins_anew_after_a_gap():
    bench = Bench(obs_horizon=3, max_hold_s=60.0)
    seen: list[np.ndarray] = []
    ask = bench.policy.submit

    def noting(question: InferenceRequest) -> None:
        seen.append(question.obs["pos"][0, :, 0])
        ask(question)

    bench.policy.submit = noting
    bench.begin()
    bench.run(40)
    bench.run(100, silent=True)
    bench.pos = bench.pos + 0.02
    before = len(seen)
    bench.run(PlausibilityCheck.Config().reaccept_count)
    assert len(seen) == before + 1
    assert np.ptp(seen[-1]) == 0.0


@pytest.mark.parametrize(
    "reading",
    [
        Reading({"position": np.zeros(JOINTS)}, ("other", *NAMES[1:]), 0.0),
        Reading({"position": np.full(JOINTS, np.nan)}, NAMES, 0.0),
        Reading({"position": np.zeros(2)}, NAMES, 0.0),
        Reading({"velocity": np.zeros(JOINTS)}, NAMES, 0.0),
    ],
)
def test_a_reading_that_does_not_fit_is_told_and_is_as_good_as_none(reading):
    bench = Bench().begin()
    bench.run(20)
    outputs = []
    for _ in range(30):
        bench.inbox.put(TOPIC, reading._replace(stamp_s=bench.now_s))
        outputs.append(bench.tick(silent=True))
    assert all(TOPIC in output.problem for output in outputs)
    assert outputs[-1].state is State.HOLDING
    assert bench.run(20)[-1].state is State.RUNNING


class Told:
    """A bench whose policy answers 0.06 s late and reads an instruction."""

    def __init__(self) -> None:
        self.bench = Bench(delay_s=0.06, safety={"max_chunk_age_s": 2.0})
        own = contract()
        text = TensorSpec(shape=(16,), dtype="int64", unit=TOKEN)
        spec = ObsSpec(items={**own.obs.items, "instruction": text})
        encoder = {"name": "bytes", "max_bytes": 16}
        agreed = own.model_copy(update={"obs": spec, "text_encoder": encoder})
        sources = {
            "pos": Source(topic=TOPIC, field="position"),
            "instruction": Source(topic="/words", msg_type=MsgType.TEXT),
        }
        runtime = self.bench.runtime
        runtime.parts = runtime.parts._replace(observer=Observer(agreed, sources))
        self.say("lift")
        self.bench.begin()

    def say(self, words: str) -> None:
        reading = Reading({"data": np.asarray(words)}, (), self.bench.now_s)
        self.bench.inbox.put("/words", reading)

    def run(self, ticks: int) -> list[str]:
        return [output.instruction for output in self.bench.run(ticks)]


def test_a_command_follows_the_words_of_its_chunk_until_there_is_one_of_the_new_words():
    told = Told()
    assert set(told.run(20)) == {"lift"}
    told.say("press")
    followed = told.run(20)
    begins = followed.index("press")
    assert 3 <= begins <= 7  # the answer takes three periods, and one may be under way
    assert followed == ["lift"] * begins + ["press"] * (20 - begins)
    arrived = told.bench.outputs[20 + begins].chunk
    assert arrived is not None
    assert arrived.instruction == "press"


def test_words_that_are_withdrawn_before_their_chunk_arrives_move_nothing():
    told = Told()
    told.run(20)
    told.say("press")
    followed = told.run(2)
    asked = told.bench.policy.open
    assert asked is not None
    assert asked.instruction == "press"
    told.say("lift")
    followed += told.run(30)
    assert set(followed) == {"lift"}


def test_homing_follows_no_words():
    told = Told()
    told.run(20)
    told.bench.life.deactivate()
    told.run(100)
    told.bench.runtime.home(told.bench.inbox, told.bench.number)
    assert told.run(3) == [""] * 3
