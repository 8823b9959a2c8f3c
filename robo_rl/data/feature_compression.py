"""Logarithmic compression of input features that lie far from the data.

Features enter a network in half ranges or standard deviations of the data, see
``robo_rl.data.normalize``.
"""

from __future__ import annotations

from torch import Tensor

FEATURE_LIMIT = 3.0
"""Bound of a network's input features, in half ranges or standard deviations of the data."""


def compress(x: Tensor) -> Tensor:
    """Keep x within ±L, L = ``FEATURE_LIMIT``; beyond it is ±(L + ln(1 + |x| − L)).

    The map is continuous and invertible. An element that hardly varies in the demonstrations, such
    as an object's tilt, would otherwise dominate all features and gradients once it varies.
    Clipping at L would hide it.
    """
    beyond = (x.abs() - FEATURE_LIMIT).clamp(min=0.0).log1p()
    return x.clamp(-FEATURE_LIMIT, FEATURE_LIMIT) + x.sign() * beyond
