"""Specs of actions: a reference for all elements, or one for each."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from robo_rl.core.spec import ActSpec


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("absolute", (False, False)),
        ("delta", (True, True)),
        ("delta,absolute", (True, False)),
    ],
)
def test_one_word_counts_for_all_elements(reference, expected):
    spec = ActSpec(shape=(2,), rate_hz=10.0, reference=reference)
    assert spec.is_delta == expected
    assert ActSpec.model_validate(spec.model_dump()) == spec


def test_a_word_for_some_elements_is_refused():
    with pytest.raises(ValidationError, match="reference has 2 words for a last axis of 3"):
        ActSpec(shape=(3,), rate_hz=10.0, reference="delta,absolute")
