"""A label is a boolean; what merely can be taken for one is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from robo_rl.core.labels import as_flag, as_label

NO_LABELS = ["false", "", float("nan"), None, [True], np.array(True), np.array([False]), 2, 0.5]


@pytest.mark.parametrize("value", [True, np.True_])
def test_booleans_are_labels_and_flags(value: Any):
    assert as_label(value) is as_flag(value) is True
    assert as_label(~np.bool_(value)) is as_flag(~np.bool_(value)) is False


@pytest.mark.parametrize("value", NO_LABELS)
def test_what_is_no_boolean_is_neither(value: Any):
    for said in (as_label, as_flag):
        with pytest.raises(ValueError, match="is no boolean"):
            said(value)


@pytest.mark.parametrize("value", [1, 0, 1.0, np.float32(0), np.int64(1)])
def test_exactly_0_and_1_are_flags_and_no_labels(value: Any):
    assert as_flag(value) is bool(value)
    with pytest.raises(ValueError, match="is no boolean"):
        as_label(value)
