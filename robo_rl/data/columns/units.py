"""Units of columns of other software, and their conversion to SI units."""

from __future__ import annotations

import math

UNITS = {
    **{unit: (1.0, unit) for unit in ("rad", "m", "rad/s", "m/s", "N", "kg", "s", "1")},
    "deg": (math.pi / 180.0, "rad"),
    "deg/s": (math.pi / 180.0, "rad/s"),
    "cm": (0.01, "m"),
    "mm": (0.001, "m"),
}
"""Unit of a file → (factor to SI, SI unit)."""

RANGES = {"percent": (0.0, 100.0), "range_m100_100": (-100.0, 100.0)}
"""Unit of a file that is a share of a range → its values at the ends of the range."""

SI_UNITS = tuple(unit for unit, (_, si) in UNITS.items() if unit == si)
"""Units of items."""
