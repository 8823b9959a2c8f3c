"""The newest reading of a topic: by arrival, by its header, and not the same one again."""

from __future__ import annotations

import numpy as np
import pytest

from robo_rl_sim2real.messages.readings import Inbox, Reading

TOPIC = "/joint_states"


def reading(at_s: float, sent_s: float, pos: float = 0.0) -> Reading:
    return Reading({"position": np.array([pos])}, ("a",), at_s, sent_s=sent_s)


def newest(inbox: Inbox) -> tuple[float, float]:
    found = inbox.get(TOPIC)
    assert found is not None
    return found.stamp_s, float(found.fields["position"][0])


def test_a_header_that_falls_is_a_reading_from_before():
    inbox = Inbox()
    inbox.put(TOPIC, reading(1.0, 100.0, 0.1))
    inbox.put(TOPIC, reading(1.1, 99.9, 0.2))
    assert newest(inbox) == (1.0, 0.1)


def test_a_header_that_falls_far_is_a_clock_that_was_set():
    inbox = Inbox()
    inbox.put(TOPIC, reading(1.0, 4000.0, 0.1))
    inbox.put(TOPIC, reading(1.1, 400.0, 0.2))
    assert newest(inbox) == (1.1, 0.2)


def test_the_same_reading_again_is_as_old_as_the_first_and_is_named():
    inbox = Inbox()
    for tick in range(5):
        inbox.put(TOPIC, reading(1.0 + tick, 100.0, 0.1))
    assert newest(inbox) == (1.0, 0.1)
    problem = inbox.problem([TOPIC], since_s=2.0)
    assert problem == f"{TOPIC}: the same reading came 5 times, its header does not advance"
    inbox.put(TOPIC, reading(6.0, 101.0, 0.1))
    assert newest(inbox) == (6.0, 0.1)
    assert inbox.problem([TOPIC], since_s=2.0) == ""


def test_a_header_that_nobody_fills_in_or_that_stands_while_values_change_says_nothing():
    for sent_s in (0.0, 100.0):
        inbox = Inbox()
        for tick in range(5):
            inbox.put(TOPIC, reading(1.0 + tick, sent_s, 0.1 * tick))
        assert newest(inbox) == (5.0, 0.4)
    inbox = Inbox()
    for tick in range(5):
        inbox.put(TOPIC, reading(1.0 + tick, 0.0, 0.1))
    assert newest(inbox) == (5.0, 0.1)


def test_the_longest_gap_of_the_latest_arrivals():
    inbox = Inbox()
    for at_s in (1.0, 1.5, 1.6):
        inbox.put(TOPIC, reading(at_s, at_s))
    assert inbox.gap_s(TOPIC) == np.inf
    for at_s in (1.7, 1.8):
        inbox.put(TOPIC, reading(at_s, at_s))
    assert inbox.gap_s(TOPIC) < 0.11
    assert inbox.gap_s("/other") == np.inf


def test_the_longest_gap_is_of_all_readings_since_a_time_also_of_those_nobody_looked_at():
    inbox, rng = Inbox(), np.random.default_rng(0)
    times = 10.0 + np.cumsum(rng.exponential(0.01, 400))
    for at_s in times:
        inbox.put(TOPIC, reading(at_s, at_s))
    for since_s in (*times[::37], times[-1], -np.inf):
        gaps = np.diff(times)[times[1:] > since_s]
        expected = gaps.max() if len(gaps) else 0.0
        assert inbox.longest_gap_s(TOPIC, since_s) == pytest.approx(expected)
        assert inbox.snapshot().longest_gap_s(TOPIC, since_s) == pytest.approx(expected)
    assert inbox.longest_gap_s("/other", -np.inf) == 0.0
