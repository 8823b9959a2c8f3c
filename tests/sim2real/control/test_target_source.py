"""The target is the start pose while homing, an operator's, or else the policy's."""

from __future__ import annotations

import numpy as np
import pytest
from small_limits import JOINTS
from small_robot import NAMES, TOPIC, Bench

from robo_rl_sim2real.control.commands.safety import Reason
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.readings import Reading

PAD = {
    "topic": "/joy",
    "msg_type": "sensor_msgs/msg/Joy",
    "deadman_button": 0,
    "joints": {"joint0": {"axis": 0, "scale": 0.1}},
}


def bench(**fields: object) -> Bench:
    return Bench(act=lambda tick: np.full((8, JOINTS), 0.2), teleop=PAD, **fields)  # type: ignore


def hold(made: Bench, *, held: bool) -> None:
    fields = {"axes": np.ones(1), "buttons": np.array([int(held)])}
    made.inbox.put("/joy", Reading(fields, (), made.now_s))


def test_the_policy_is_followed_as_of_its_observation():
    made = bench().begin()
    made.run(10)
    source = made.runtime._source
    target = source.target(made.runtime._last - made.runtime._begun, made.now_s)
    np.testing.assert_array_equal(target.pos, 0.2)  # pyright: ignore
    assert made.now_s - 5 * made.limits.dt_s <= target.basis_s < made.now_s


def test_without_an_action_there_is_no_target_and_it_is_of_now():
    made = bench(delay_s=1e9).begin()
    made.run(3)
    assert made.runtime._source.target(3, made.now_s) == (None, made.now_s)


def test_an_operator_comes_before_the_policy_and_the_oldest_message_counts():
    made = bench().begin()
    made.run(60)
    hold(made, held=True)
    made.tick()
    assert made.runtime.state is State.TELEOPERATED
    target = made.runtime._source.target(61, made.now_s)
    assert target.pos is not None
    assert target.pos[0] > target.pos[1]
    assert target.basis_s == made.now_s - made.limits.dt_s
    made.now_s += 1.0
    made.tick()
    assert made.runtime._source.target(62, made.now_s).pos is None


def test_homing_follows_the_start_pose_and_asks_the_policy_nothing():
    asked = list[int]()
    made = Bench(act=lambda tick: asked.append(tick) or np.zeros((8, JOINTS)), teleop=PAD)
    made.life.configure()
    made.pos = np.full(JOINTS, 0.2)
    made.watch()
    made.runtime.home(made.inbox, 0)
    hold(made, held=True)
    made.tick()
    assert made.runtime.state is State.HOMING
    target = made.runtime._source.target(1, made.now_s)
    assert target.pos is made.life.start
    assert target.basis_s == made.runtime.seen_s
    assert asked == []


LEADER = {"topic": "/leader", "deadman": "/deadman", "joints": {"joint0": {"source": "led"}}}
MISFITS = {
    "without names": Reading({"position": np.zeros(1)}, (), 0.0),
    "no 'led'": Reading({"position": np.zeros(1)}, ("other",), 0.0),
    "not finite": Reading({"position": np.full(1, np.nan)}, ("led",), 0.0),
}


def led_by(misfit: Reading, ticks: int, blocked: float | None = None) -> Bench:
    """A robot whose operator's leader arm sends a message that does not fit."""
    made = Bench(teleop=LEADER).begin()
    made.run(60)
    for _ in range(ticks):
        made.inbox.put("/leader", misfit._replace(stamp_s=made.now_s))
        made.inbox.put("/deadman", Reading({"data": np.asarray(True)}, (), made.now_s))
        if blocked is not None:
            made.lag, made.pos = 0.0, made.pos + blocked
        made.tick()
    return made


@pytest.mark.parametrize("says", MISFITS)
def test_a_leader_that_does_not_fit_holds_the_robot_whose_pose_is_tracked(says: str):
    made = led_by(MISFITS[says], 10)
    assert says in made.outputs[-1].problem
    assert made.runtime.state is State.HOLDING
    assert made.runtime._pose.measured_s == made.now_s - made.limits.dt_s


def test_a_collision_is_noticed_while_the_leader_does_not_fit():
    made = led_by(MISFITS["no 'led'"], 40, blocked=0.03)
    commands = [output.command for output in made.outputs]
    assert Reason.TRACKING in [command.reason for command in commands if command is not None]
    assert made.runtime.state is State.FAULTED


def test_a_wrong_reading_is_in_doubt_while_the_leader_does_not_fit():
    made = led_by(MISFITS["no 'led'"], 1, blocked=0.8)
    command = made.outputs[-1].command
    assert command is not None
    assert command.reason is Reason.DOUBT


def test_an_operator_is_heard_while_the_joints_do_not_fit():
    made = bench().begin()
    made.run(60)
    made.inbox.put(TOPIC, Reading({"position": np.zeros(2)}, NAMES, made.now_s))
    hold(made, held=True)
    assert TOPIC in made.tick(silent=True).problem
    assert made.runtime.state is State.TELEOPERATED
