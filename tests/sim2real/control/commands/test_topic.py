"""What a trajectory commands, by the names and times of its points."""

from __future__ import annotations

import numpy as np
import pytest

from robo_rl.core.errors import SpecError
from robo_rl_sim2real.control.commands.topic import CommandTopic
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading

TOPIC = CommandTopic("/arm", MsgType.TRAJECTORY, ("a", "b"), (0, 1), 1.0 / 30.0)


def said(points: list[list[float]], times: list[float], names: tuple[str, ...]) -> Reading:
    positions = np.array(points).reshape(len(points), len(names))
    return Reading({"positions": positions, "times": np.array(times)}, names, 0.0)


def test_points_are_taken_by_name_and_time():
    way = TOPIC.waypoints(said([[1.0, 2.0], [3.0, 6.0]], [0.0, 2.0 / 30.0], ("b", "a")))
    np.testing.assert_allclose(way.at(0.0), [2.0, 1.0])
    np.testing.assert_allclose(way.at(1.0), [4.0, 2.0])
    np.testing.assert_allclose(way.at(9.0), [6.0, 3.0])


def test_the_command_of_a_trajectory_is_where_it_is_after_one_period():
    found = TOPIC.positions_in(said([[0.0, 0.0], [3.0, 6.0]], [0.0, 3.0 / 30.0], ("a", "b")))
    np.testing.assert_allclose(found, [1.0, 2.0])
    one = said([[1.0, 2.0]], [round(1e9 / 30.0) * 1e-9], ("a", "b"))  # as in a message, in ns
    np.testing.assert_array_equal(TOPIC.positions_in(one), [1.0, 2.0])
    later = TOPIC.waypoints(one).starting_from(np.zeros(2))
    np.testing.assert_array_equal(later.at(1.0), [1.0, 2.0])


def test_a_first_point_that_is_due_later_is_approached_from_the_start():
    way = TOPIC.waypoints(said([[4.0, 8.0]], [4.0 / 30.0], ("a", "b")))
    np.testing.assert_allclose(way.starting_from(np.zeros(2)).at(1.0), [1.0, 2.0])
    np.testing.assert_allclose(way.starting_from(None).at(1.0), [4.0, 8.0])


@pytest.mark.parametrize(
    ("points", "times", "names", "problem"),
    [
        ([[0.0, 0.0]], [0.1], ("a", "c"), "expected a, b, found a, c"),
        ([], [], ("a", "b"), "expected a point of a trajectory, found none"),
        ([[0.0, 0.0]] * 2, [0.2, 0.1], ("a", "b"), "time_from_start; expected times in order"),
        ([[0.0, np.nan]], [0.1], ("a", "b"), "not finite"),
    ],
)
def test_a_trajectory_that_cannot_be_followed_is_refused(points, times, names, problem):
    with pytest.raises(SpecError, match=problem):
        TOPIC.positions_in(said(points, times, names))
