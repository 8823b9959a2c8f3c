"""Changes under way: late ones are caught up, and none is lost or made twice."""

from __future__ import annotations

import pytest
import torch

from robo_rl.core.spec import ActSpec
from robo_rl.env.sent_changes import SentChanges

SPEC = ActSpec(
    shape=(2,), rate_hz=10.0, reference="delta,absolute", low=(-0.1, 0.0), high=(0.1, 1.0)
)


def taken(ages: list[int], acts: list[float]) -> list[float]:
    """What takes effect of each change, for the age of the newest message in each step."""
    changes, sent, done = SentChanges(SPEC, 1, torch.device("cpu")), [], []
    changes.send(torch.tensor([[0.07, 0.5]]))  # of the episode before
    changes.restart(torch.tensor([0]))
    for age, act in zip(ages, acts, strict=True):
        message, before = changes.send(torch.tensor([[act, 0.5]]))
        sent = sent or [before] * 5
        sent.append(message)
        found = changes.receive(sent[-1 - age])
        assert found[0, 1] == 0.5
        done.append(float(found[0, 0]))
    return done


def test_a_constant_delay_shifts_changes_and_begins_without_one():
    acts = [0.01, 0.02, 0.03, 0.04]
    assert taken([2] * 4, acts) == pytest.approx([0.0, 0.0, 0.01, 0.02])


def test_a_lost_message_is_caught_up_by_the_next_within_the_limits():
    acts = [0.04, 0.04, 0.04, 0.0, 0.0]
    assert taken([0, 1, 2, 0, 0], acts) == pytest.approx([0.04, 0.0, 0.0, 0.08, 0.0])
    far = [0.1, 0.1, 0.1, 0.1, 0.0, 0.0]
    assert taken([0, 1, 2, 0, 0, 0], far) == pytest.approx([0.1, 0.0, 0.0, 0.1, 0.1, 0.1])


def test_changes_are_clipped_before_they_are_added_up():
    assert taken([0, 0], [5.0, -0.05]) == pytest.approx([0.1, -0.05])


def test_targets_are_sent_as_they_are():
    changes = SentChanges(SPEC.model_copy(update={"reference": "absolute"}), 1, torch.device("cpu"))
    act = torch.tensor([[7.0, 8.0]])
    message, before = changes.send(act)
    assert torch.equal(message, act)
    assert torch.equal(before, act)
    assert torch.equal(changes.receive(message), act)
