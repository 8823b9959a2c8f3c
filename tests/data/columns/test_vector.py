"""Units, ranges, limits and shapes of an item of numbers; unused settings are refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from robo_rl.core.errors import DataError
from robo_rl.data.columns.feature import Feature
from robo_rl.data.columns.vector import Vector

TWO = Feature(dtype="float32", shape=(2,), names=["a", "g"])
FOUR = Feature(dtype="float32", shape=(4,))
SHARES: dict[str, Any] = {
    "units": ["range_m100_100", "percent"],
    "range_of": {"a": [-1.9, 1.2], "g": [-0.17, 1.7]},
}


def vector(**fields: Any) -> Vector:
    return Vector.model_validate({"source": "x", **fields})


@pytest.mark.parametrize(
    ("is_delta", "expected"),
    [
        ((False,), [[-0.35, -0.17], [-0.195, 0.017]]),
        ((True,), [[0.0, 0.0], [0.155, 0.187]]),
        ((True, False), [[0.0, -0.17], [0.155, 0.017]]),
    ],
)
def test_a_change_of_a_share_has_no_offset(is_delta: tuple[bool, ...], expected: list[Any]):
    """10 of 200 parts of 3.1 rad are 0.155 rad, and 10 % of 1.87 rad are 0.187 rad."""
    rows = np.array([[0, 0], [10, 10]], np.float32)
    assert np.allclose(vector(**SHARES).convert(rows, TWO, is_delta), expected, atol=1e-6)


def test_the_words_of_a_last_axis_hold_for_all_rows_of_a_matrix():
    fields = {"units": ["percent"], "range_of": {str(n): [1.0, 3.0] for n in range(4)}}
    found = vector(**fields, shape=[2, 2]).convert(np.full((1, 4), 50.0), FOUR, (True, False))
    assert found.tolist() == [[[1.0, 2.0], [1.0, 2.0]]]


@pytest.mark.parametrize(
    ("fields", "unit"),
    [
        ({"units": ["deg", "cm"]}, "rad,m"),
        ({"units": ["deg", "m"], "unit": "rad,m"}, "rad,m"),
        ({"units": ["deg", "1"], "unit": "rad,Pa"}, "rad,Pa"),
        ({"units": ["1"], "unit": "N m"}, "N m"),
        ({**SHARES, "range_unit": "m"}, "m"),
    ],
)
def test_the_unit_of_an_item_is_that_of_its_elements(fields: dict[str, Any], unit: str):
    assert vector(**fields).spec(TWO).unit == unit


@pytest.mark.parametrize("unit", ["", "rad,m"])
def test_units_of_a_matrix_are_those_of_its_last_axis(unit: str):
    item = vector(units=["rad", "m", "rad", "m"], shape=[2, 2], unit=unit)
    assert item.spec(FOUR).unit == "rad,m"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"units": ["deg", "m"], "unit": "m,rad"}, "unit 'm' of element 0 in rad"),
        ({"units": ["rad", "1"], "unit": "N,kg"}, "unit 'N' of element 0 in rad"),
        ({"units": ["rad", "rad"], "unit": "1"}, "unit '1' of element 0 in rad"),
        ({"units": ["rad"], "unit": "rad,rad,rad"}, "unit 'rad,rad,rad' for a last axis of 2"),
        ({"units": ["rad"], "shape": []}, r"shape \[\] of 2 elements"),
        ({**SHARES, "range_of": {"a": [0, 1]}}, "'g' is a share of an unknown range"),
        (
            {**SHARES, "range_of": {**SHARES["range_of"], "grip": [0, 1]}},
            "range_of: 'grip' is no element in percent or range_m100_100",
        ),
        (
            {**SHARES, "units": ["rad", "percent"]},
            "range_of: 'a' is no element in percent or range_m100_100; .*known: g",
        ),
    ],
)
def test_what_does_not_fit_the_column_is_refused(fields: dict[str, Any], said: str):
    with pytest.raises(DataError, match=said):
        vector(**fields).spec(TWO)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({**SHARES, "range_unit": "deg"}, "range_unit: no SI unit 'deg'; .*known: 1, N, kg"),
        ({**SHARES, "range_unit": "furlong"}, "range_unit: no SI unit 'furlong'"),
        ({**SHARES, "range_of": {"a": [1, 1]}}, "range_of: both ends of 'a' are 1"),
        ({"units": ["rad"], "range_of": {"a": [0, 1]}}, "range_of: no unit is percent or"),
        ({"units": ["rad"], "range_unit": "m"}, "range_unit: no unit is percent or"),
        ({"units": ["rad"], "low": [1, 1], "high": [0, 0]}, "low: 1 of element 0 is above its"),
        ({"units": ["rad"], "low": [math.nan, 1]}, "low: expected numbers, found nan"),
    ],
)
def test_a_setting_that_is_wrong_or_does_nothing_is_refused(fields: dict[str, Any], said: str):
    with pytest.raises(ValidationError, match=said):
        vector(**fields)


def test_limits_may_be_open_at_an_end():
    spec = vector(units=["rad"], low=[-math.inf, -1], high=[1, math.inf]).spec(TWO)
    assert (spec.low, spec.high) == ((-math.inf, -1.0), (1.0, math.inf))


def test_an_item_of_an_empty_shape_is_a_number():
    item, one = vector(units=["rad"], shape=[]), Feature(dtype="float32", shape=(1,))
    assert item.spec(one).shape == ()
    assert item.convert(np.zeros((3, 1), np.float32), one).shape == (3,)
