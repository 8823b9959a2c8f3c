"""States of a deployed policy."""

from __future__ import annotations

import itertools

import pytest

from robo_rl_sim2real.core.lifecycle_states import Event, State, TransitionError, after


def reached(start: State, *events: Event) -> State:
    for event in events:
        start = after(start, event)
    return start


def test_the_usual_way_and_back():
    way = Event.CONFIGURE, Event.ACTIVATE, Event.RAMPED, Event.HOLD, Event.RECOVER, Event.RAMPED
    assert reached(State.UNCONFIGURED, *way) is State.RUNNING
    assert reached(State.RUNNING, Event.DEACTIVATE, Event.CLEANUP) is State.UNCONFIGURED


def test_a_fault_is_left_by_reset_alone():
    for state in State:
        if state.moves:
            assert after(state, Event.FAULT) is State.FAULTED
    ways = [event for event in Event if _possible(State.FAULTED, event)]
    assert ways == [Event.RESET]
    assert after(State.FAULTED, Event.RESET) is State.INACTIVE


def test_nothing_moves_but_by_activation_or_on_its_way_home():
    asked = (Event.ACTIVATE, Event.HOME)
    for state, event in itertools.product(State, Event):
        if not state.moves and event not in asked and _possible(state, event):
            assert not after(state, event).moves


def test_what_is_not_possible_says_what_is():
    with pytest.raises(TransitionError, match=r"cannot activate while unconfigured.*configure"):
        after(State.UNCONFIGURED, Event.ACTIVATE)


def _possible(state: State, event: Event) -> bool:
    try:
        after(state, event)
    except TransitionError:
        return False
    return True
