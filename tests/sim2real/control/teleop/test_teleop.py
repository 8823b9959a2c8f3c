"""A human takes over and lets go: nothing jumps, limits hold, and silence is a reason to hold."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from small_limits import JOINTS, excess, limits
from small_robot import NAMES, Bench, wave

from robo_rl.core.errors import ConfigError, SpecError
from robo_rl_sim2real.control.teleop.teleop import Teleop
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.ee_pose import EePoseAxes
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Inbox, Reading

LEADER = {
    "topic": "/leader",
    "deadman": "/held",
    "joints": {
        "joint0": {"source": "a", "scale": 0.5},
        "joint3": {"source": "b", "relative": False, "scale": -1.0, "offset": 0.3},
    },
}
PAD = {
    "topic": "/joy",
    "msg_type": "sensor_msgs/msg/Joy",
    "deadman_button": 2,
    "joints": {"joint1": {"axis": 3, "scale": 0.4}, "joint4": {"axis": 0, "scale": 50.0}},
}

TWIST = {
    "topic": "/twist",
    "msg_type": "geometry_msgs/msg/TwistStamped",
    "deadman": "/held",
    "joints": {"joint0": {"axis": 1}, "joint4": {"axis": 5, "scale": 2.0}},
}


class Human:
    """Says something every tick of a bench."""

    def __init__(self, teleop: dict[str, Any], **fields: Any) -> None:
        self.bench = Bench(teleop=teleop, **fields).begin()
        self.arm: np.ndarray | None = None

    def lead(self, ticks: int, a: float, b: float = 0.0, *, held: bool = True) -> None:
        """Bring the leader there, no faster than a human can."""
        for _ in range(ticks):
            now_s, goal = self.bench.now_s, np.array([b, a])
            self.arm = (
                goal if self.arm is None else self.arm + np.clip(goal - self.arm, -0.07, 0.07)
            )
            arm = Reading({"position": self.arm}, ("b", "a"), now_s)
            self.bench.inbox.put("/leader", arm)
            self.bench.inbox.put("/held", Reading({"data": np.asarray(held)}, (), now_s))
            self.bench.tick()

    def steer(self, ticks: int, axes: dict[int, float], *, held: bool = True) -> None:
        for _ in range(ticks):
            values = np.array([axes.get(i, 0.0) for i in range(4)])
            fields = {"axes": values, "buttons": np.array([0, 1, int(held)])}
            self.bench.inbox.put("/joy", Reading(fields, (), self.bench.now_s))
            self.bench.tick()

    def push(self, ticks: int, linear: list[float], angular: list[float]) -> None:
        for _ in range(ticks):
            fields = {"linear": np.array(linear), "angular": np.array(angular)}
            self.bench.inbox.put("/twist", Reading(fields, (), self.bench.now_s))
            said = {"data": np.asarray(True)}
            self.bench.inbox.put("/held", Reading(said, (), self.bench.now_s))
            self.bench.tick()


def still(tick: int) -> np.ndarray:
    """A policy that wants to be elsewhere, and stay there."""
    return np.full((8, JOINTS), 0.2)


def test_after_a_human_the_blend_begins_with_the_first_answer():
    safety = {"inference_timeout_s": 2.0, "max_chunk_age_s": 5.0}
    act = np.full((400, JOINTS), 0.2)
    human = Human(PAD, act=lambda tick: act, delay_s=0.5, lag=1.0, resume_s=1.0, safety=safety)
    human.steer(60, {}, held=False)
    human.steer(40, {0: -1.0})
    human.steer(20, {}, held=False)
    bench = human.bench
    begun = bench.sent[-1]
    assert bench.outputs[-1].target is None
    human.steer(33, {}, held=False)
    share = (bench.sent[-1][4] - begun[4]) / (0.2 - begun[4])
    assert 0.4 < share < 0.6


def test_an_arm_is_followed_from_where_it_was_and_a_gripper_to_where_it_is():
    human = Human(LEADER, act=still)
    human.lead(100, a=7.0, b=0.1, held=False)
    np.testing.assert_allclose(human.bench.sent[-1], 0.2, atol=1e-9)
    human.lead(100, a=7.0, b=0.1)
    assert human.bench.runtime.state is State.TELEOPERATED
    expected = np.array([0.2, 0.2, 0.2, 0.3 - 0.1, 0.2])
    np.testing.assert_allclose(human.bench.sent[-1], expected, atol=1e-9)
    human.lead(100, a=6.0, b=0.5)
    expected = np.array([0.2 - 0.5, 0.2, 0.2, 0.3 - 0.5, 0.2])
    np.testing.assert_allclose(human.bench.sent[-1], expected, atol=1e-9)
    assert excess(np.stack(human.bench.sent), human.bench.limits) < 1e-6


@pytest.mark.parametrize("delay_s", [0.0, 0.06])
def test_what_changes_hands_in_motion_does_not_jump_and_the_policy_has_it_back(delay_s):
    human = Human(LEADER, act=wave, delay_s=delay_s, resume_s=0.3)
    rng = np.random.default_rng(0)
    for turn in range(12):
        human.lead(int(rng.integers(5, 30)), a=rng.normal(), held=turn % 2 == 0)
    human.lead(200, a=0.0, held=False)
    bench = human.bench
    assert excess(np.stack(bench.sent), bench.limits) < 1e-6
    assert bench.runtime.state is State.RUNNING
    late = round(delay_s / 0.02)
    wanted = wave(bench.number - 1 - late)[late]  # the wave goes on as if no one had taken over
    np.testing.assert_allclose(bench.sent[-1], wanted, atol=1e-9)
    seen = [output.state for output in bench.outputs]
    ends = [b for a, b in pairwise(seen) if a is State.TELEOPERATED and a is not b]
    assert len(ends) == 6
    assert set(ends) == {State.RAMPING}


def test_the_policy_is_not_asked_while_a_human_has_the_robot():
    asked: list[int] = []

    def act(tick: int) -> np.ndarray:
        asked.append(tick)
        return wave(tick)

    human = Human(LEADER, act=act)
    human.lead(20, a=0.0, held=False)
    before = len(asked)
    human.lead(40, a=0.0)
    assert len(asked) == before > 0
    human.lead(1, a=0.0, held=False)
    assert len(asked) == before + 1


def test_an_answer_from_before_is_not_acted_on_after():
    human = Human(LEADER, act=lambda tick: np.full((8, JOINTS), 0.01 * tick), delay_s=0.1)
    human.lead(60, a=0.0, held=False)
    human.lead(2, a=0.0)  # shorter than the answer takes
    held = human.bench.sent[-1].copy()
    human.lead(3, a=0.0, held=False)
    assert human.bench.runtime.parts.policy.chunks.empty
    np.testing.assert_allclose(human.bench.sent[-1], held, atol=0.05)


def test_silence_in_hand_is_a_reason_to_hold_and_ends_with_it():
    human = Human(LEADER, act=still)
    human.lead(50, a=0.0)
    bench = human.bench
    silent = bench.run(40)
    after_s = round(0.2 / bench.limits.dt_s)
    assert silent[after_s - 2].state is State.TELEOPERATED
    assert silent[after_s + 2].state is State.HOLDING
    assert silent[-1].state is not State.RUNNING  # the policy does not take what was not given
    human.arm = None
    human.lead(50, a=9.0)  # elsewhere by now: it counts from here
    assert bench.runtime.state is State.TELEOPERATED
    np.testing.assert_allclose(bench.sent[-1][0], silent[-1].command.pos[0], atol=1e-6)  # type: ignore[union-attr]
    human.lead(50, a=9.0, held=False)
    assert bench.runtime.state is State.RUNNING


def test_silence_with_the_switch_let_go_is_none():
    human = Human(LEADER, act=still)
    human.lead(5, a=0.0, held=False)
    human.bench.run(100)
    assert human.bench.runtime.state is State.RUNNING


def test_axes_are_speeds_up_to_the_limits_and_stop_with_them():
    human = Human(PAD, act=still)
    human.steer(60, {})
    begun = human.bench.sent[-1].copy()
    human.steer(50, {3: -0.5, 0: 0.2})
    moving = np.diff(np.stack(human.bench.sent[-3:]), axis=0)[-1] / human.bench.limits.dt_s
    assert moving[1] == pytest.approx(-0.5 * 0.4)
    top = human.bench.sent[-1][4]
    human.steer(100, {})
    end = human.bench.sent[-1] - begun
    assert end[1] == pytest.approx(-0.5 * 0.4 * 50 * 0.02)
    assert human.bench.sent[-1][4] - top < 0.4  # of 10 rad/s for a second, at 2.6 rad/s at most
    np.testing.assert_allclose(end[[0, 2, 3]], 0.0, atol=1e-9)
    assert excess(np.stack(human.bench.sent), human.bench.limits) < 1e-6


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"position": np.zeros(1)}, ("a",)),
        ({"position": np.array([np.nan, 0.0])}, ("a", "b")),
        ({"effort": np.zeros(2)}, ("a", "b")),
        ({"position": np.zeros(2)}, ()),
        ({"position": np.zeros(1)}, ()),
        ({"position": np.zeros(3)}, ()),
    ],
)
def test_what_does_not_fit_holds_and_is_said(fields, names):
    human = Human(LEADER, act=still)
    human.lead(20, a=0.0)
    bench = human.bench
    for _ in range(5):
        bench.inbox.put("/leader", Reading(fields, names, bench.now_s))
        bench.inbox.put("/held", Reading({"data": np.asarray(True)}, (), bench.now_s))
        output = bench.tick()
    assert output.state is State.HOLDING
    assert "/leader" in output.problem


def test_a_twist_moves_what_it_is_told_to_as_fast_as_it_says():
    human = Human(TWIST, act=still)
    human.push(100, [9.0, 0.0, 9.0], [9.0, 9.0, 0.0])
    before = human.bench.sent[-1].copy()
    human.push(100, [0.0, 0.1, 0.0], [0.0, 0.0, -0.05])
    human.push(100, [0.0] * 3, [0.0] * 3)
    moved = human.bench.sent[-1] - before
    spans = 100 * human.bench.limits.dt_s
    np.testing.assert_allclose(moved, [0.1 * spans, 0, 0, 0, -0.1 * spans], atol=1e-9)
    assert excess(np.stack(human.bench.sent), human.bench.limits) < 1e-6


def test_a_twist_in_another_frame_is_nothing_to_go_by():
    hand = EePoseAxes(("joint0",), frame="base")
    teleop = Teleop(Teleop.Config.model_validate(TWIST), NAMES, limits(), hand)
    inbox, zeros = Inbox(), np.zeros(3)
    inbox.put("/held", Reading({"data": np.asarray(True)}, (), 1.0))
    for frame, fits in (("base", True), ("tool", False)):
        fields = {"linear": zeros, "angular": zeros, "frame": np.asarray(frame)}
        inbox.put("/twist", Reading(fields, (), 1.0))
        if fits:
            assert teleop.read(inbox, 1.0, lambda: np.zeros(JOINTS)).held
            continue
        with pytest.raises(SpecError, match="frame; expected base, found tool"):
            teleop.read(inbox, 1.0, lambda: np.zeros(JOINTS))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"deadman": ""}, "deadman"),
        ({"joints": {}}, "joint0"),
        ({"joints": {"joint9": {"source": "a"}}}, "joint"),
        ({"joints": {"joint1": {"axis": 2}}}, "source"),
        ({"msg_type": MsgType.POSE}, "JointState"),
        ({"msg_type": MsgType.JOY, "deadman_button": -1, "deadman": ""}, "deadman_button"),
        ({"msg_type": MsgType.JOY}, "axis"),
        ({"msg_type": MsgType.TWIST}, "axis"),
        ({"msg_type": MsgType.TWIST, "deadman": ""}, "deadman"),
    ],
)
def test_settings_that_cannot_work_are_refused(change, says):
    cfg = Teleop.Config.model_validate({**LEADER, **change})
    with pytest.raises(ConfigError, match=says):
        Teleop(cfg, NAMES, limits())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"joints": {"joint0": {"source": "a", "offset": 0.1}}}, "offset: needs relative=false"),
        ({"joints": {"joint0": {"source": "a", "axis": 2}}}, "source: is for a leader arm"),
        ({"joints": {"joint0": {"axis": 2, "relative": False}}}, "relative=false: is for a leader"),
        ({"deadman_button": 1}, "deadman_button: needs msg_type sensor_msgs/msg/Joy"),
        ({"msg_type": MsgType.JOY, "deadman_button": 1}, "is the topic deadman already"),
    ],
)
def test_a_setting_without_effect_is_refused(change, says):
    with pytest.raises(ValueError, match=says):
        Teleop.Config.model_validate({**LEADER, **change})


def test_an_empty_topic_turns_it_off_whatever_else_is_set():
    cfg = Teleop.Config.model_validate({**LEADER, "topic": ""})
    assert not Teleop(cfg, NAMES, limits()).topics


@pytest.mark.parametrize("pad", [False, True])
def test_what_is_done_to_a_robot_that_holds_does_not_add_up(pad):
    human = Human(PAD if pad else LEADER, act=still)
    bench = human.bench
    say = (lambda n, x: human.steer(n, {3: x})) if pad else (lambda n, x: human.lead(n, a=x))
    say(60, 0.0)
    bench.tell = lambda **fields: None  # type: ignore[method-assign]  # the robot falls silent
    for x in np.linspace(0.1, 1.0, 40):
        say(1, float(x))
    assert bench.runtime.state is State.HOLDING
    held = bench.sent[-1].copy()
    del bench.tell
    say(100, 0.0 if pad else 1.0)  # nothing moves any more
    assert bench.runtime.state is State.TELEOPERATED
    np.testing.assert_allclose(bench.sent[-1][:3], held[:3], atol=0.02)


@pytest.mark.parametrize("pad", [False, True])
def test_another_beginning_knows_nothing_of_the_hand_before(pad):
    human = Human(PAD if pad else LEADER, act=still)
    bench = human.bench
    say = (lambda n, x: human.steer(n, {3: x})) if pad else (lambda n, x: human.lead(n, a=x))
    say(40, 0.0)
    say(60, 0.8)
    assert np.abs(bench.sent[-1][:2]).max() > 0.3
    bench.life.deactivate()
    bench.run(150)
    bench.pos = np.zeros(JOINTS)
    bench.watch()
    bench.watch()
    bench.runtime.reset()
    bench.watch()
    bench.runtime.activate(bench.inbox, bench.number)
    begun = len(bench.sent)
    say(60, 0.0 if pad else 0.8)
    np.testing.assert_allclose(np.stack(bench.sent[begun:])[:, :3], 0.0, atol=0.02)


def test_a_leader_that_jumps_is_not_followed_and_counts_anew_once_it_is_believed():
    human = Human(LEADER, act=still)
    human.lead(60, a=0.0)
    bench, before = human.bench, human.bench.sent[-1]
    human.arm = np.array([0.0, 2.0])
    human.lead(1, a=2.0)
    assert "/leader: moved farther than it can: 'a' by +2.000" in bench.outputs[-1].problem
    assert bench.outputs[-1].state is State.HOLDING
    human.lead(60, a=2.0)
    assert bench.runtime.state is State.TELEOPERATED
    np.testing.assert_allclose(bench.sent[-1], before, atol=1e-6)
    human.lead(60, a=2.4)
    np.testing.assert_allclose(bench.sent[-1][0], before[0] + 0.2, atol=1e-6)


def test_a_stick_beyond_its_ends_and_a_velocity_in_another_unit_hold_the_robot():
    human = Human(PAD, act=still)
    human.steer(30, {3: 0.1})
    human.steer(1, {3: 3.0})
    assert "/joy: a deflection; expected -1 to 1" in human.bench.outputs[-1].problem
    assert human.bench.outputs[-1].state is State.HOLDING
    human = Human(TWIST, act=still)
    human.push(30, [0.0, 0.1, 0.0], [0.0] * 3)
    human.push(1, [0.0, 100.0, 0.0], [0.0] * 3)
    assert "/twist: a velocity" in human.bench.outputs[-1].problem
    assert human.bench.outputs[-1].state is State.HOLDING


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_leader_without_names_that_nobody_uses_is_no_fault(size: int):
    human = Human(LEADER, act=still)
    human.bench.run(20)
    for _ in range(5):
        reading = Reading({"position": np.zeros(size)}, (), human.bench.now_s)
        human.bench.inbox.put("/leader", reading)
        output = human.bench.tick()
    assert output.state is State.RUNNING


def test_a_leader_that_nobody_uses_may_say_what_it_likes():
    human = Human(LEADER, act=still)
    bench = human.bench
    human.lead(30, a=0.0, held=False)
    for _ in range(60):
        broken = Reading({"position": np.full(2, np.nan)}, ("b", "a"), bench.now_s)
        bench.inbox.put("/leader", broken)
        bench.inbox.put("/held", Reading({"data": np.asarray(False)}, (), bench.now_s))
        bench.tick()
    assert bench.runtime.state is State.RUNNING
    bench.inbox.put("/held", Reading({"data": np.asarray(True)}, (), bench.now_s))
    assert "/leader" in bench.tick().problem
