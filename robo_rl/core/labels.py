"""Strict conversion of labels: a label is a boolean, and no other value is cast to one.

``bool("false")``, ``bool(nan)`` and ``bool([False])`` are all True, so a cast hides bad labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def as_label(value: Any) -> bool:
    """Return a boolean of Python or numpy as ``bool``.

    Raises:
        ValueError: It is a word, a number, None, an array or anything else.
    """
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise ValueError(f"{repr(value)[:80]} is no boolean")


def as_flag(value: Any) -> bool:
    """Return a boolean, or a single number that is exactly 0 or 1, as ``bool``.

    Simulators report success in either form.

    Raises:
        ValueError: It is anything else, NaN and arrays of one element included.
    """
    number = isinstance(value, (int, float, np.number))
    return bool(value) if number and value in (0, 1) else as_label(value)
