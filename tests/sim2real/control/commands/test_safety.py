"""The checks in front of a robot: what trips, in which order, what latches, what is sent then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_limits import JOINTS, excess, limits

from robo_rl_sim2real.control.commands.safety import Command, Reason, Safety, SafetyInput

HOME = np.zeros(JOINTS)


def make(**fields: Any) -> Safety:
    return Safety(Safety.Config(**fields), limits(), HOME)


def asked(**fields: Any) -> SafetyInput:
    """A harmless request at time 1."""
    usual = {"target": HOME + 0.0008, "measured": HOME, "observed_s": 1.0, "basis_s": 1.0}
    return SafetyInput(**{**usual, "measured_s": 1.0, **fields})


def at_1(safety: Safety, **fields: Any) -> Command:
    return safety.step(asked(**fields), 1.0)


TRIPS = [
    (Reason.NOT_FINITE, {"target": np.full(JOINTS, np.nan)}),
    (Reason.NOT_FINITE, {"target": HOME + np.array([0, 0, np.inf, 0, 0])}),
    (Reason.ESTOP, {"estop": True}),
    (Reason.ESTOP, {"estop": True, "stop": True}),
    (Reason.STOP, {"stop": True}),
    (Reason.DOUBT, {"implausible_reason": "joint 1 moved farther than it can"}),
    (Reason.GRAPH, {"graph_problem": "/command: no node receives the commands"}),
    (Reason.STALE, {"observed_s": 0.93, "measured_s": 0.93}),
    (Reason.STALE, {"observed_s": float("nan"), "measured_s": float("nan")}),
    (Reason.LATE, {"pending_s": 0.3, "target": None}),
    (Reason.LATE, {"basis_s": -0.1}),
    (Reason.TRACKING, {"measured": HOME + 0.6}),
    (Reason.TRACKING, {"measured": np.full(JOINTS, np.nan)}),
    (Reason.EMPTY, {"target": None}),
]


def test_what_is_harmless_passes_as_it_is():
    command = at_1(make())
    assert command.reason is None
    assert (command.pos == HOME + 0.0008).all()
    assert (command.clamped == 0.0).all()


@pytest.mark.parametrize(("reason", "fields"), TRIPS)
def test_each_check_trips_and_a_moving_robot_comes_to_rest(reason, fields):
    safety, sent = make(), [HOME]
    for _ in range(20):
        sent.append(safety.step(asked(target=sent[-1] + 0.02, measured=sent[-1]), 1.0).pos)
    first = at_1(safety, **{"measured": sent[-1], **fields})
    assert first.reason is reason
    sent.append(first.pos)
    for _ in range(60):
        sent.append(at_1(safety, measured=sent[-1], target=None).pos)
    assert np.isfinite(sent).all()
    assert excess(np.stack(sent), limits()) < 1e-6
    np.testing.assert_array_equal(sent[-1], sent[-2])


@pytest.mark.parametrize(("reason", "fields"), TRIPS)
def test_only_what_needs_a_person_latches(reason, fields):
    safety = make()
    at_1(safety, **fields)
    again = at_1(safety, measured=safety.limiter.motion.pos)
    assert again.reason == (reason if reason.latches else None)
    safety.restart(HOME)
    assert at_1(safety).reason is None


def test_of_several_the_first_in_order_is_told():
    for place, (first, fields) in enumerate(TRIPS):
        for _, more in TRIPS[place + 1 :]:
            if not ("basis_s" in fields and more.get("target", HOME) is None):
                assert at_1(make(), **{**more, **fields}).reason is first


def test_an_observation_is_stale_after_three_periods_or_a_tenth_of_a_second():
    safety = make()
    assert safety.max_age_s == pytest.approx(0.06)
    assert at_1(safety, observed_s=0.941).reason is None
    slow = Safety(Safety.Config(), limits(dt_s=0.1), HOME)
    assert slow.max_age_s == 0.1


def test_a_joint_that_is_held_up_is_given_way_slowly_once_it_was_measured_there_for_long():
    """A wrong reading is no target: only what is believed, and stood there, is."""
    for lag, known, rest in (
        (0.05, {"is_standing": True}, "command"),
        (0.3, {"is_standing": True}, "robot"),
        (0.3, {}, "command"),
        (0.3, {"is_standing": True, "implausible_reason": "it jumped"}, "command"),
        (0.3, {"is_standing": True, "measured_s": 0.5}, "command"),
        (0.3, {"is_standing": True, "observed_s": 0.5}, "robot"),
    ):
        safety = make(max_tracking_error=1.0)
        start = [safety.step(asked(target=HOME + 0.5), 1.0).pos for _ in range(100)][-1]
        fields: dict[str, Any] = {"target": None, "measured": (measured := start - lag), **known}
        sent = [start, *(at_1(safety, **fields).pos for _ in range(400))]
        np.testing.assert_allclose(sent[-1], start if rest == "command" else measured, atol=1e-6)
        speed = np.abs(np.diff(sent, axis=0)) / safety.limits.dt_s
        assert (speed <= (0.1 + 1e-6) * safety.limits.velocity).all()


UNHEARD = {"graph_problem": "/command: no node receives the commands", "is_unheard": True}


@pytest.mark.parametrize(
    ("moved", "known", "follows"),
    [
        (0.3, {}, True),
        (0.05, {}, False),
        (0.3, {"implausible_reason": "it jumped"}, False),
        (0.3, {"measured_s": 0.5}, False),
        (0.3, {"observed_s": 0.5}, True),
        (0.3, {"is_unheard": False}, False),
    ],
)
def test_the_command_goes_with_a_robot_that_moves_while_nobody_hears_commands(
    moved: float, known: dict[str, Any], follows: bool
):
    """A controller that comes back is told to stay, and the policy waits for a reset."""
    safety, measured = make(), HOME.copy()
    for share in np.linspace(0.0, 1.0, 40):
        measured[2] = moved * share
        command = at_1(safety, measured=measured.copy(), **{**UNHEARD, **known})
    least = moved - safety.cfg.yield_distance * 2.5 if follows else 0.0  # of a range of 2.5
    assert least - 1e-9 <= command.pos[2] <= (moved if follows else 0.0)
    np.testing.assert_array_equal(np.delete(command.pos, 2), np.delete(HOME, 2))
    assert safety.latched is (Reason.TRACKING if follows else None)
    if follows:
        assert command.detail == "'joint 2' moved while no node received the commands"
    else:
        assert command.detail in (UNHEARD["graph_problem"], "it jumped")
    assert at_1(safety, measured=measured, estop=True).reason is (safety.latched or Reason.ESTOP)


def test_a_press_goes_before_a_robot_that_is_moved():
    safety = make()
    at_1(safety, **UNHEARD)
    assert at_1(safety, measured=HOME + 0.3, estop=True, **UNHEARD).reason is Reason.ESTOP


def test_a_robot_that_sags_does_not_pull_the_command_along():
    """Not even at a controller that is back before the graph is looked at again."""
    safety = make()
    for _ in range(20):
        command = at_1(safety, measured=safety.limiter.motion.pos - 0.05, **UNHEARD)
    np.testing.assert_array_equal(command.pos, HOME)
    assert safety.latched is None


def test_a_robot_that_stopped_short_when_its_controller_died_was_not_moved():
    """The graph tells of it half a second later; it yields, and the policy goes on."""
    safety, pos = make(), HOME
    for _ in range(40):
        pos = safety.step(asked(target=pos + 0.02, measured=pos), 1.0).pos
    stopped = pos - 0.3
    for _ in range(1000):
        command = at_1(safety, measured=stopped, target=None, is_standing=True, **UNHEARD)
        assert command.reason is Reason.GRAPH
    np.testing.assert_allclose(command.pos, stopped, atol=1e-6)
    assert at_1(safety, measured=stopped, target=command.pos).reason is None


def test_a_robot_that_another_moved_meanwhile_is_not_taken_back():
    """A rival moves it by less than a fault of tracking, and leaves."""
    for moved, reason in ((0.3, Reason.TRACKING), (0.05, None)):
        safety = make()
        rival = "/command: published by other"
        for share in np.linspace(0.0, 1.0, 20):
            at_1(safety, measured=HOME + moved * share, graph_problem=rival)
        command = at_1(safety, measured=HOME + moved)
        assert command.reason is reason
        assert ("after a problem of the graph" in command.detail) is (reason is not None)


@pytest.mark.parametrize("other", [{"implausible_reason": "2 nodes publish"}, {"stalled": True}])
@pytest.mark.parametrize("lasts", [0, 5])
def test_a_robot_that_was_moved_is_not_taken_back_whatever_else_was_amiss(other, lasts):
    """The rival publishes readings too, or the loop stalled, until then or for longer."""
    safety, rival = make(), "/command: published by other"
    for share in np.linspace(0.0, 1.0, 20):
        at_1(safety, measured=HOME + 0.3 * share, graph_problem=rival, **other)
    for _ in range(lasts):
        at_1(safety, measured=HOME + 0.3, **other)
    assert at_1(safety, measured=HOME + 0.3).reason is Reason.TRACKING


def test_a_fault_of_tracking_names_the_joint_the_amount_the_limit_and_the_setting():
    measured = HOME.copy()
    measured[2] = 0.6
    command = at_1(make(), measured=measured)
    assert command.reason is Reason.TRACKING
    assert "'joint 2' is 0.600 from its command, at most 0.375" in command.detail
    assert "safety.max_tracking_error=0.15" in command.detail


@pytest.mark.parametrize("old", [{"observed_s": 0.5}, {"readings_regular": False}])
def test_an_old_image_holds_the_robot_and_hides_no_collision(old):
    """The joints are measured all the while; where they are not, nothing is known of them."""
    safety, far = make(), HOME + 0.6
    assert at_1(safety, observed_s=0.5).reason is Reason.STALE
    assert at_1(safety, measured=far, measured_s=0.5, **old).reason is Reason.STALE
    assert at_1(safety, **old).reason is Reason.STALE
    assert at_1(safety, measured=far, **old).reason is Reason.TRACKING


def test_a_hold_ends_only_when_readings_come_regularly_again():
    safety = make()
    assert at_1(safety, observed_s=0.5).reason is Reason.STALE
    assert at_1(safety, readings_regular=False).reason is Reason.STALE
    assert at_1(safety).reason is None
    assert (
        at_1(safety, readings_regular=False).reason is None
    )  # irregular alone is no reason to hold


def test_margin_and_speed_make_the_limits_tighter():
    """A tenth of a range of 2.5 at either end."""
    within = make(position_margin=0.1, speed_scale=0.5).limits
    np.testing.assert_allclose(within.low, limits().low + 0.25)
    np.testing.assert_allclose(within.high, limits().high - 0.25)
    for name in ("velocity", "acceleration", "jerk"):
        np.testing.assert_array_equal(getattr(within, name), 0.5 * getattr(limits(), name))


def test_a_gripper_that_holds_something_is_no_fault_and_goes_on_holding():
    follows = np.array([True, True, True, True, False])
    safety = Safety(Safety.Config(), limits(), HOME, follows)
    held = HOME + np.array([0.0, 0.0, 0.0, 0.0, 0.6])
    assert at_1(safety, measured=held).reason is None
    for _ in range(60):
        command = at_1(safety, measured=held, target=None)
    assert command.reason is Reason.EMPTY
    np.testing.assert_allclose(command.pos, 0.0, atol=0.01)


def test_a_robot_that_stood_because_the_loop_stalled_is_not_set_going_again_to_brake():
    safety, pos = make(), HOME
    for _ in range(30):
        pos = safety.step(asked(target=pos + 0.02, measured=pos), 1.0).pos
    stopping = at_1(safety, estop=True, measured=pos).pos  # it has a way to go to rest
    after = at_1(safety, estop=True, stalled=True, measured=stopping).pos
    for _ in range(30):
        after = at_1(safety, estop=True, measured=after).pos
        np.testing.assert_allclose(after, stopping, atol=1e-9)
