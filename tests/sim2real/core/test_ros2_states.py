"""ROS 2's managed states follow a policy's, by transitions that ROS 2 knows."""

from __future__ import annotations

import itertools

import pytest

from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.core.ros2_states import Primary, Transition, primary, transitions_between

# design.ros2.org, "Managed nodes": where each transition leads when it succeeds.
KNOWN = {
    (Primary.UNCONFIGURED, Transition.CONFIGURE): Primary.INACTIVE,
    (Primary.INACTIVE, Transition.CLEANUP): Primary.UNCONFIGURED,
    (Primary.INACTIVE, Transition.ACTIVATE): Primary.ACTIVE,
    (Primary.ACTIVE, Transition.DEACTIVATE): Primary.INACTIVE,
}


@pytest.mark.parametrize("state", list(State))
def test_what_a_policy_or_a_human_moves_is_active_and_nothing_else(state: State):
    moves = state.moves and state is not State.HOMING  # which asks no policy
    assert (primary(state) is Primary.ACTIVE) == moves
    assert (primary(state) is Primary.UNCONFIGURED) == (state is State.UNCONFIGURED)


@pytest.mark.parametrize(
    ("at", "to"), [*itertools.product(sorted({primary(s) for s in State}), repeat=2)]
)
def test_there_is_a_way_from_every_state_to_every_other(at: Primary, to: Primary):
    for transition in transitions_between(at, to):
        at = KNOWN[at, transition]
    assert at is to


@pytest.mark.parametrize("to", list(Primary))
def test_there_is_no_way_back_from_the_end(to: Primary):
    assert transitions_between(Primary.FINALIZED, to) == []
