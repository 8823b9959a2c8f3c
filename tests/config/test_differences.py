"""Where two trees of plain values differ."""

from __future__ import annotations

from typing import Any

import pytest

from robo_rl.config.differences import UNSET, Difference, differences


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, [(("a", "c"), 2, 3)]),
        ({"a": [1, 2]}, {"a": [1, 3]}, [(("a",), [1, 2], [1, 3])]),
        ({"a": {"b": 1}}, {}, [(("a", "b"), 1, UNSET)]),
        ({}, {"a": {}}, [(("a",), UNSET, {})]),
        ({"a": None}, {}, [(("a",), None, UNSET)]),
        ({"a": {"b": 1}}, {"a": "x"}, [(("a",), {"b": 1}, "x")]),
        ({"a": {"b": [{}]}}, {"a": {"b": [{}]}}, []),
    ],
)
def test_the_innermost_keys_are_named(one: Any, other: Any, found: list[tuple[Any, ...]]):
    assert list(differences(one, other)) == [Difference(*each) for each in found]
    swapped = [(path, second, first) for path, first, second in found]
    assert list(differences(other, one)) == [Difference(*each) for each in swapped]


def test_a_key_is_dotted_and_one_that_is_not_there_is_unset():
    (found,) = differences({"b": {"c": 1}}, {}, ("a",))
    assert f"{found.key}: {found.other}" == "a.b.c: unset"
