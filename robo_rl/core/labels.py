"""What counts as a label: a boolean, and nothing that merely can be taken for one.

``bool("false")``, ``bool(nan)`` and ``bool([False])`` are true, so a label is never cast.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def as_label(value: Any) -> bool:
    """A boolean of Python or numpy.

    Raises:
        ValueError: It is a word, a number, None, an array or anything else.
    """
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise ValueError(f"{repr(value)[:80]} is no boolean")


def as_flag(value: Any) -> bool:
    """A boolean, or a single number that is exactly 0 or 1, as simulators say success.

    Raises:
        ValueError: It is anything else, NaN and arrays of one element included.
    """
    number = isinstance(value, (int, float, np.number))
    return bool(value) if number and value in (0, 1) else as_label(value)
